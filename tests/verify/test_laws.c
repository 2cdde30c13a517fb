// The laws of the formal check, each with pairs that it proves and near misses that it must not prove. Real numbers are
// the judge of the table: proved pairs are close where both are finite, near misses are not.
#include "graphs.h"
#include "mutate.h"

#include <math.h>

// u and v do not change along dimension 1.
#define PART(X, I) "chunk(" X ", dim=1, parts=3, index=" I ")"
#define HEAD "program p { X: f32[4, 6]; Y: f32[4, 6]; Z: f32[4, 6]; u: f32[4, 1]; v: f32[4, 1]; return "

enum { INPUTS = 5, SEEDS = 3 };

struct pair {
  const char *a, *b;
};

static const struct pair proved[] = {
    // roots of quotients and products
    {"X / sqrt(X)", "sqrt(X)"},
    {"X * rsqrt(X)", "sqrt(X)"},
    {"1 / sqrt(X)", "rsqrt(X)"},
    {"sqrt(1 / X)", "rsqrt(X)"},
    {"rsqrt(X) * rsqrt(X)", "1 / X"},
    {"sqrt(X) * sqrt(Y)", "sqrt(X * Y)"},
    {"sqrt(X) / sqrt(Y)", "sqrt(X / Y)"},
    {"sqrt(X) * sqrt(Y) * sqrt(X * Y)", "X * Y"},
    {"sqrt(X * Y) * sqrt(X * Y)", "X * Y"},
    {"sqrt(X * Y) * X * Y", "sqrt(X * Y) * sqrt(X * Y) * sqrt(X * Y)"},
    {"sqrt(X * exp(Y))", "sqrt(X) * exp(0.5 * Y)"},
    {"sqrt(X + Y) * sqrt(X + Y)", "X + Y"},
    {"(X + Y) / sqrt(X + Y)", "sqrt(X + Y)"},
    {"sqrt(X) * sqrt(X * Y)", "X * sqrt(Y)"},
    {"sum(sqrt(X) * sqrt(Y), dim=1)", "sum(sqrt(Y * X), dim=1)"},
    {"sum(sqrt(X * X), dim=1) + sum(sqrt(X), dim=1)", "sum(X + sqrt(X), dim=1)"},
    {"sum(sum(sqrt(reshape(X, [4, 2, 3])), dim=2), dim=1) + reshape(sum(abs(X), dim=1), [4, 1, 1])",
     "sum(sum(sqrt(reshape(X, [4, 2, 3])), dim=2), dim=1) + reshape(sum(X, dim=1), [4, 1, 1])"},
    {"sqrt(X * exp(Y) / (1 + square(Z)))", "sqrt(X) * exp(Y / 2) / sqrt(1 + Z * Z)"},
    {"sqrt(square(X - Y))", "abs(Y - X)"},
    {"sqrt(4 * square(X + Y) * exp(Z))", "2 * exp(Z / 2) * abs(X + Y)"},
    {"sqrt((1 + X * X) * (1 + Y * Y))", "sqrt(1 + X * X) * sqrt(1 + Y * Y)"},
    {"exp(1 / ((X + 1) * (Y + 1)))", "exp(1 / (X + 1) * (1 / (Y + 1)))"},
    {"sum(X / ((X * X + 1) * (Y + Z)), dim=1)", "sum(X / (X * X + 1) / (Y + Z), dim=1)"},
    // numbers under roots
    {"sqrt(2 * X) * sqrt(2)", "2 * sqrt(X)"},
    {"sqrt(2) * X * sqrt(3)", "sqrt(6) * X"},
    {"sqrt(12 * X)", "2 * sqrt(3) * sqrt(X)"},
    {"sqrt(X / 3)", "sqrt(3 * X) / 3"},
    {"sqrt(841 * X)", "29 * sqrt(X)"},
    {"sqrt(0.13 * X)", "sqrt(0.13) * sqrt(X)"},
    {"sqrt(sum(square(0.5 * X), dim=1))", "0.5 * sqrt(sum(square(X), dim=1))"},
    {"sqrt(99980001 * X)", "9999 * sqrt(X)"},
    {"sqrt(67280421310721) * X", "X * sqrt(67280421310721)"},
    {"rms_norm(7 * X)", "rms_norm(X)"},
    {"rms_norm(X) * sqrt(6)", "6 * X / sqrt(sum(X * X, dim=1))"},
    {"rms_norm(u * X) * abs(u)", "u * rms_norm(X)"},
    {"rms_norm(exp(u) * X)", "rms_norm(X)"},
    // absolute values
    {"sqrt(square(X))", "abs(X)"},
    {"square(sqrt(X))", "X"},
    {"square(abs(X))", "X * X"},
    {"abs(X) * abs(X) * abs(X)", "square(X) * abs(X)"},
    {"X / abs(X)", "abs(X) / X"},
    {"abs(-3 * X)", "3 * abs(X)"},
    {"abs(X * Y)", "abs(X) * abs(Y)"},
    {"abs(X / Y)", "abs(X) / abs(Y)"},
    {"abs(X - Y)", "abs(Y - X)"},
    {"abs(exp(X))", "exp(X)"},
    {"abs(square(X) + 1)", "1 + X * X"},
    {"abs(abs(X) + relu(Y))", "relu(Y) + abs(X)"},
    {"maximum(X, -X)", "abs(X)"},
    {"-minimum(X, -X)", "abs(X)"},
    {"sqrt(X * X * Y * Y)", "abs(X * Y)"},
    {"sqrt(X * X * exp(Y))", "abs(X) * exp(Y / 2)"},
    {"abs(X) + sqrt(X)", "X + sqrt(X)"},
    {"sqrt(X * X * Y) + sqrt(Y)", "abs(X) * sqrt(Y) + sqrt(Y)"},
    {"square(X - Y) / abs(X - Y)", "abs(X - Y)"},
    // relu, maximum, minimum, clamp
    {"relu(X)", "maximum(X, 0)"},
    {"relu(X)", "(X + abs(X)) / 2"},
    {"relu(2 * X)", "2 * relu(X)"},
    {"relu(X) - relu(-X)", "X"},
    {"relu(X) + relu(-X)", "abs(X)"},
    {"relu(exp(Y) * X)", "exp(Y) * relu(X)"},
    {"relu(X / (1 + square(Y)))", "relu(X) / (Y * Y + 1)"},
    {"relu(relu(X))", "relu(X)"},
    {"relu(abs(X) + exp(Y))", "exp(Y) + abs(X)"},
    {"square(relu(X))", "X * relu(X)"},
    {"maximum(X + Z, Y + Z)", "Z + maximum(Y, X)"},
    {"maximum(X, maximum(Y, Z))", "maximum(maximum(Z, X), Y)"},
    {"maximum(maximum(X, Y), X)", "maximum(X, Y)"},
    {"minimum(minimum(X, Y), Z)", "-maximum(maximum(-Z, -X), -Y)"},
    {"minimum(X, Y) + maximum(X, Y)", "X + Y"},
    {"maximum(X, Y)", "X + relu(Y - X)"},
    {"maximum(X * Y, X * Z) + minimum(X * Y, X * Z)", "X * (Y + Z)"},
    {"maximum(2 * X, 2 * maximum(Y, Z))", "2 * maximum(X, maximum(Y, Z))"},
    {"maximum(maximum(X, Y), minimum(X, Y))", "maximum(X, Y)"},
    {"clamp(X, -1, 2)", "minimum(maximum(X, -1), 2)"},
    {"clamp(X, -1, 2)", "maximum(minimum(X, 2), -1)"},
    {"clamp(X, -1, 1)", "-clamp(-X, -1, 1)"},
    {"clamp(X, -1, inf)", "maximum(X, -1)"},
    {"clamp(X, -inf, 2)", "minimum(X, 2)"},
    {"clamp(X, 0, 1)", "relu(X) - relu(X - 1)"},
    {"clamp(clamp(X, -1, 1), -2, 2)", "clamp(X, -1, 1)"},
    {"clamp(2 * X, -2, 2)", "2 * clamp(X, -1, 1)"},
    {"relu(X) + sqrt(X)", "X + sqrt(X)"},
    {"maximum(maximum(X, 1), 3)", "maximum(X, 3)"},
    // functions made of others
    {"softplus(X)", "log(1 + exp(X))"},
    {"leaky_relu(X, 0.25)", "maximum(X, 0) + 0.25 * minimum(X, 0)"},
    {"leaky_relu(X, 0.25)", "0.25 * X + 0.75 * relu(X)"},
    {"leaky_relu(X, -1)", "abs(X)"},
    {"sin(X + Y)", "sin(Y + X)"},
    // odd and even functions
    {"sin(-X)", "-sin(X)"},
    {"cos(-X)", "cos(X)"},
    {"erf(-X)", "-erf(X)"},
    {"erf(X - Y)", "-erf(Y - X)"},
    {"cos(2 * X - 3 * Y + Z)", "cos(3 * Y - Z - 2 * X)"},
    {"sin(X * Y - X) + sin(X - X * Y)", "X - X"},
    {"sin(-X) * erf(-Y)", "erf(Y) * sin(X)"},
    {"sin(cos(-X) - sin(-Y))", "sin(sin(Y) + cos(X))"},
    {"sum(sin(u - X), dim=1)", "-sum(sin(X - u), dim=1)"},
    {"sin(sum(-X, dim=1)) * v", "-v * sin(sum(X, dim=1))"},
    {"exp(cos(X - 1))", "exp(cos(1 - X))"},
    {"sin(X - X) + cos(Y)", "cos(-Y)"},
    {"min(X, dim=1)", "-max(-X, dim=1)"},
    {"min(X + u, dim=1)", "min(X, dim=1) + u"},
    {"min(minimum(X, Y), dim=1)", "minimum(min(X, dim=1), min(Y, dim=1))"},
    {"max(softplus(X), dim=1)", "softplus(max(X, dim=1))"},
    {"max(erf(X), dim=1)", "erf(max(X, dim=1))"},
    // maxima along a dimension
    {"max(3 * X, dim=1)", "3 * max(X, dim=1)"},
    {"max(X + u, dim=1)", "max(X, dim=1) + u"},
    {"max(X - max(X, dim=1), dim=1)", "u - u"},
    {"max(exp(u) * X, dim=1)", "exp(u) * max(X, dim=1)"},
    {"max(X / sqrt(square(u) + 1), dim=1)", "max(X, dim=1) * rsqrt(u * u + 1)"},
    {"max(abs(u) * X + v, dim=1)", "v + max(X, dim=1) * abs(u)"},
    {"max(exp(X), dim=1)", "exp(max(X, dim=1))"},
    {"max(sigmoid(2 * X), dim=1)", "sigmoid(2 * max(X, dim=1))"},
    {"max(tanh(sqrt(X)), dim=1)", "tanh(sqrt(max(X, dim=1)))"},
    {"max(relu(X), dim=1)", "relu(max(X, dim=1))"},
    {"max(maximum(X, Y), dim=1)", "maximum(max(X, dim=1), max(Y, dim=1))"},
    {"max(maximum(X, u), dim=1)", "maximum(u, max(X, dim=1))"},
    {"max(abs(X), dim=1)", "maximum(max(X, dim=1), max(-X, dim=1))"},
    {"max(abs(-2 * X), dim=1)", "2 * max(abs(X), dim=1)"},
    {"-max(-2 * X + u, dim=1)", "-2 * max(-X, dim=1) - u"},
    {"max(max(X, dim=1), dim=0)", "max(max(X, dim=0), dim=1)"},
    {"max(X * u, dim=1) + sqrt(u)", "max(X, dim=1) * u + sqrt(u)"},
    {"X / max(abs(X), dim=1)", "(5 * X) / max(abs(5 * X), dim=1)"},
    // exponentials and logarithms
    {"log(exp(X))", "X"},
    {"exp(log(X))", "X"},
    {"exp(2 * log(X))", "X * X"},
    {"exp(0.5 * log(X))", "sqrt(X)"},
    {"exp(-1 * log(X))", "1 / X"},
    {"log(X * Y) + log(X)", "2 * log(X) + log(Y)"},
    {"log(X) - log(Y)", "log(X / Y)"},
    {"log(1 / X)", "-log(X)"},
    {"log(square(X))", "2 * log(abs(X))"},
    {"log(sqrt(X))", "log(X) / 2"},
    {"log(square(X + Y))", "2 * log(abs(X + Y))"},
    {"log((1 + X * X) * (1 + exp(Y)))", "log(1 + exp(Y)) + log(1 + X * X)"},
    {"log(8 * X) + log(2 * X)", "2 * log(4 * X)"},
    {"log(X / 6)", "2 * log(X) - log(6 * X)"},
    {"exp(log(X * Y))", "X * Y"},
    {"log(exp(X) * exp(Y) / (1 + square(Z)))", "X + Y - log(Z * Z + 1)"},
    {"u + log(sum(exp(X - u), dim=1))", "log(sum(exp(X), dim=1))"},
    {"max(X, dim=1) + log(sum(exp(X - max(X, dim=1)), dim=1))", "log(sum(exp(X), dim=1))"},
    {"log(softmax(X, dim=1))", "X - log(sum(exp(X), dim=1))"},
    {"exp(X - log(sum(exp(X), dim=1)))", "softmax(X, dim=1)"},
    {"max(log(X), dim=1)", "log(max(X, dim=1))"},
    {"log(abs(X) + sqrt(X))", "log(sqrt(X)) + log(1 + sqrt(X))"},
    // sigmoid, tanh, powers
    {"sigmoid(X)", "1 / (1 + exp(-X))"},
    {"sigmoid(X)", "exp(X) / (1 + exp(X))"},
    {"silu(X)", "X / (1 + exp(-X))"},
    {"1 - sigmoid(X)", "sigmoid(-X)"},
    {"tanh(X)", "(exp(2 * X) - 1) / (exp(2 * X) + 1)"},
    {"tanh(X)", "2 * sigmoid(2 * X) - 1"},
    {"tanh(-X)", "-tanh(X)"},
    {"silu(X) - X", "silu(-X)"},
    {"log(sigmoid(X))", "-log(1 + exp(-X))"},
    {"pow(X, 3)", "X * X * X"},
    {"pow(X, -2)", "1 / square(X)"},
    {"pow(X, 0)", "X - X + 1"},
    {"pow(X, 0.5)", "sqrt(X)"},
    {"pow(X, -0.5)", "rsqrt(X)"},
    {"pow(X, 1.5)", "X * sqrt(X)"},
    {"pow(X * X, 0.25) * pow(X * X, 0.25)", "abs(X)"},
    {"pow(pow(X, 0.25), 2)", "sqrt(X)"},
    {"pow(4 * X, 0.5)", "2 * sqrt(X)"},
    {"abs(abs(X) + X)", "2 * relu(X)"},
    {"abs(relu(X + Y) - X - Y)", "relu(-X - Y)"},
    {"abs(2 * relu(X + Y) - X - Y)", "abs(X + Y)"},
    // parts of a sum
    {"sum(" PART("X", "0") " + " PART("X", "1") " + " PART("X", "2") ", dim=1)", "sum(X, dim=1)"},
    {"sum(" PART("X", "0") " * " PART("Y", "0") " + " PART("X", "2") " * " PART("Y", "2") " + " PART("X", "1") " * " PART("Y", "1") ", dim=1)",
     "sum(Y * X, dim=1)"},
    {"log(sum(exp(" PART("X", "0") ") + exp(" PART("X", "1") ") + exp(" PART("X", "2") "), dim=1))", "log(sum(exp(X), dim=1))"},
};

static const struct pair unproved[] = {
    {"sin(X)", "cos(X)"},
    {"sin(-X)", "sin(X)"},
    {"cos(-X)", "-cos(X)"},
    {"erf(-X)", "erf(X)"},
    {"erf(X - Y)", "-erf(X + Y)"},
    {"cos(X - Y)", "cos(X + Y)"},
    {"sin(X - X)", "cos(X - X)"},
    {"cos(X - X)", "X - X"},
    {"sum(sin(u - X), dim=1)", "sum(sin(X - u), dim=1)"},
    {"square(sin(X))", "-sin(-X) * sin(-X)"},
    {"sin(2 * X)", "2 * sin(X)"},
    {"erf(X)", "tanh(X)"},
    {"softplus(X)", "relu(X)"},
    {"softplus(-X)", "-softplus(X)"},
    {"leaky_relu(X, 0.25)", "leaky_relu(X, 0.5)"},
    {"leaky_relu(2 * X, 0.25)", "leaky_relu(X, 0.5)"},
    {"leaky_relu(-X, 0.25)", "-leaky_relu(X, 0.25)"},
    {"min(X, dim=1)", "max(X, dim=1)"},
    {"min(-2 * X, dim=1)", "-2 * min(X, dim=1)"},
    {"prod(X, dim=1)", "sum(X, dim=1)"},
    {"prod(2 * X, dim=1)", "2 * prod(X, dim=1)"},
    {"prod(-X, dim=0) * prod(X, dim=0)", "-square(prod(X, dim=0))"},
    {"logsumexp(X, dim=1)", "max(X, dim=1)"},
    {"sqrt(X * X)", "X"},
    {"sqrt(X * X * Y)", "X * sqrt(Y)"},
    {"sqrt(square(X + Y))", "X + Y"},
    {"sqrt((X - 1) * (Y - 1)) + sqrt(X)", "sqrt(abs(X - 1)) * sqrt(Y - 1) + sqrt(X) * 2"},
    {"1 / ((X + 1) * (Y + 1))", "1 / (X + 1) + 1 / (Y + 1)"},
    {"X / sqrt(X * X)", "1 + 0 * X"},
    {"sqrt(X * Y) * sqrt(Y * Z) * sqrt(X * Z)", "X * Y * Z"},
    {"sqrt(X * Y) * sqrt(X / Y)", "X"},
    {"sqrt(X) + sqrt(Y)", "sqrt(X + Y)"},
    {"-sqrt(841 * X)", "29 * sqrt(X)"},
    {"sqrt(2 * X)", "2 * sqrt(X)"},
    {"rms_norm(-7 * X)", "rms_norm(X)"},
    {"rms_norm(u * X)", "rms_norm(X)"},
    {"rms_norm(X)", "X / sqrt(sum(X * X, dim=1))"},
    {"sqrt(sum(X * X, dim=1))", "sum(abs(X), dim=1)"},
    {"abs(X)", "X"},
    {"abs(X + Y)", "abs(X) + abs(Y)"},
    {"abs(X - Y)", "abs(X) - abs(Y)"},
    {"abs(sum(X, dim=1))", "sum(abs(X), dim=1)"},
    {"abs(X) * abs(Y)", "X * Y"},
    {"abs(exp(X) - 1)", "exp(X) - 1"},
    {"abs(X) + sqrt(Y)", "X + sqrt(Y)"},
    {"abs(X) + sum(sqrt(u), dim=0) + sqrt(Y)", "X + sum(sqrt(u), dim=0) + sqrt(Y)"},
    {"abs(X) + sqrt(X * Y)", "X + sqrt(X * Y)"},
    {"abs(Y) + sqrt(X * X * Y)", "abs(Y) + X * sqrt(Y)"},
    {"relu(-2 * X)", "-2 * relu(X)"},
    {"relu(X + Y)", "relu(X) + relu(Y)"},
    {"relu(X * Y)", "X * relu(Y)"},
    {"relu(X * Y)", "relu(X) * relu(Y)"},
    {"relu(X + exp(Y))", "X + exp(Y)"},
    {"maximum(X + Z, Y)", "maximum(X, Y) + Z"},
    {"maximum(Z * X, Z * Y)", "Z * maximum(X, Y)"},
    {"maximum(X, minimum(Y, Z))", "minimum(maximum(X, Y), Z)"},
    {"maximum(X, Y)", "maximum(X, maximum(Y, Z))"},
    {"minimum(X, Y)", "-maximum(X, Y)"},
    {"clamp(X, 1, -1)", "maximum(minimum(X, -1), 1)"},
    {"clamp(X, -1, 1)", "clamp(-X, -1, 1)"},
    {"clamp(3 * X, -1, 1)", "3 * clamp(X, -1, 1)"},
    {"clamp(X, -1, 1)", "maximum(X, -1)"},
    {"max(-2 * X, dim=1)", "-2 * max(X, dim=1)"},
    {"max(X * Y, dim=1)", "max(X, dim=1) * max(Y, dim=1)"},
    {"max(u * X, dim=1)", "u * max(X, dim=1)"},
    {"max(X + Y, dim=1)", "max(X, dim=1) + Y"},
    {"max(X + Y, dim=1)", "max(X, dim=1) + max(Y, dim=1)"},
    {"max(exp(Y) * X, dim=1)", "exp(max(Y, dim=1)) * max(X, dim=1)"},
    {"max(square(X), dim=1)", "square(max(X, dim=1))"},
    {"max(abs(X), dim=1)", "abs(max(X, dim=1))"},
    {"max(exp(-X), dim=1)", "exp(-max(X, dim=1))"},
    {"max(X, dim=1)", "max(X, dim=0)"},
    {"max(silu(X - 4), dim=1)", "silu(max(X, dim=1) - 4)"},
    {"-max(-X, dim=1)", "max(X, dim=1)"},
    {"max(relu(X) - relu(Y), dim=1)", "max(X - Y, dim=1)"},
    {"X / max(X, dim=1)", "-X / max(-X, dim=1)"},
    {"log(X + Y)", "log(X) + log(Y)"},
    {"log(square(X))", "log(abs(X))"},
    {"log(X * X)", "log(X * Y)"},
    {"exp(log(X * X) / 2)", "X"},
    {"exp(log(X) * Y)", "X * Y"},
    {"log(2 * X)", "2 * log(X)"},
    {"log(sum(exp(X - Y), dim=1)) + max(Y, dim=1)", "log(sum(exp(X), dim=1))"},
    {"log(sum(exp(X), dim=1))", "sum(X, dim=1)"},
    {"sigmoid(-X)", "-sigmoid(X)"},
    {"sigmoid(2 * X)", "2 * sigmoid(X)"},
    {"tanh(X)", "sigmoid(X)"},
    {"silu(X * Y)", "X * silu(Y)"},
    {"silu(X)", "gelu(X)"},
    {"pow(X, 2)", "X * abs(X)"},
    {"pow(X * X, 0.5)", "X"},
    {"pow(X, 1.5)", "X * X"},
    {"pow(X, 3)", "pow(X, -3)"},
    // maxima in branches that are negative, or in a sum
    {"max(-relu(X + Y), dim=1)", "relu(max(-X - Y, dim=1))"},
    {"max(Z - maximum(X, Y), dim=1)", "maximum(max(Z - X, dim=1), max(Z - Y, dim=1))"},
    {"max(Z - abs(X), dim=1)", "maximum(max(Z - X, dim=1), max(Z + X, dim=1))"},
    {"relu(sum(relu(X + Y), dim=1) - u)", "maximum(sum(X + Y, dim=1) - u, relu(-u))"},
    {"maximum(sum(abs(X), dim=1), u)", "maximum(abs(sum(X, dim=1)), u)"},
    {"maximum(X * relu(Y + Z), u)", "maximum(maximum(X * (Y + Z), 0), u)"},
    // facts that a graph does not assert
    {"sqrt(X) + sum(abs(X), dim=1)", "sqrt(X) + sum(X, dim=1)"},
    {"sqrt(max(X, dim=1)) + sum(abs(X), dim=1)", "sqrt(max(X, dim=1)) + sum(X, dim=1)"},
    {"log(sum(X, dim=1)) + abs(X)", "log(sum(X, dim=1)) + X"},
    {"sqrt(relu(X)) + abs(X)", "sqrt(relu(X)) + X"},
    {"sqrt(X * exp(Y)) + abs(Y)", "sqrt(X * exp(Y)) + Y"},
    {"sqrt(square(X) * Y) + abs(X)", "sqrt(square(X) * Y) + X"},
    {"sqrt(X + Y) + abs(X)", "sqrt(X + Y) + X"},
    {"sqrt(-X) + abs(X)", "sqrt(-X) + X"},
    {"sqrt(X * Y * Z) + abs(X)", "sqrt(X * Y * Z) + X"},
    {"log(X * Y) + abs(X)", "log(X * Y) + X"},
    {"pow(X, 3) + abs(X)", "pow(X, 3) + X"},
    {"abs(relu(X + Y) + X + Y)", "relu(X + Y) + X + Y"},
    {"abs(abs(X) + 2 * X)", "abs(X) + 2 * X"},
    {"abs(relu(X + Y) - 2 * X - 2 * Y)", "relu(X + Y) - 2 * X - 2 * Y"},
    {"abs(sum(abs(X), dim=1) + 2 * sum(X, dim=1))", "sum(abs(X), dim=1) + 2 * sum(X, dim=1)"},
    {"sqrt(relu(X + Y) + X + Y) * sqrt(relu(X + Y) + X + Y)", "abs(relu(X + Y) + X)"},
    {"sum(" PART("X", "0") " + " PART("X", "1") " + " PART("X", "1") ", dim=1)", "sum(X, dim=1)"},
    {"sum(" PART("X", "0") " + " PART("X", "1") ", dim=1)", "sum(X, dim=1)"},
    {"sum(" PART("X", "0") " + " PART("X", "1") " + 2 * " PART("X", "2") ", dim=1)", "sum(X, dim=1)"},
    {"sum(" PART("X", "0") " * " PART("Y", "0") " + " PART("X", "2") " * " PART("Y", "1") " + " PART("X", "1") " * " PART("Y", "2") ", dim=1)",
     "sum(Y * X, dim=1)"},
};

// ---- real numbers ----

static void real_inputs(struct arena *mem, const struct graph *g, int seed, void **in)
{
  static const int elements[INPUTS] = {24, 24, 24, 4, 4};
  eval_random(mem, g, DOM_F64, NULL, (uint64_t)seed, in);
  for (int i = 0; i < INPUTS && seed % 2; i++) // every other time none is negative
    for (int k = 0; k < elements[i]; k++) ((double *)in[i])[k] = fabs(((double *)in[i])[k]);
}

// Is there a place where both are finite and not close?
static bool differ(const struct graph *a, const struct graph *b)
{
  bool found = false;
  int out;
  graph_outputs(a, &out);
  for (int seed = 0; seed < SEEDS && !found; seed++) {
    struct arena mem = {0};
    void *in[INPUTS], *x, *y;
    real_inputs(&mem, a, seed, in);
    real_run(&mem, a, in, &x), real_run(&mem, b, in, &y);
    for (int64_t k = 0; k < shape_size(&a->tensors[out].shape); k++) {
      double s = ((double *)x)[k], t = ((double *)y)[k];
      found |= isfinite(s) && isfinite(t) && fabs(s - t) > 1e-9 * (1 + fabs(s));
    }
    arena_close(&mem);
  }
  return found;
}

static void check(const struct pair *list, size_t n, bool equal)
{
  int wrong = 0;
  for (size_t i = 0; i < n; i++) {
    struct arena mem = {0};
    char x[400], y[400], why[160];
    snprintf(x, sizeof x, HEAD "%s }", list[i].a), snprintf(y, sizeof y, HEAD "%s }", list[i].b);
    const struct graph *a = graph_of(&mem, x), *b = graph_of(&mem, y);
    bool there = verify_prove(a, b, why), back = verify_prove(b, a, why);
    if (there == equal && back == equal && differ(a, b) != equal) {
      arena_close(&mem);
      continue;
    }
    print_message("%s | %s: %s there, %s back (%s), real numbers %s\n", list[i].a, list[i].b, there ? "proved" : "not proved",
                  back ? "proved" : "not proved", why, differ(a, b) ? "differ" : "agree");
    wrong++;
    arena_close(&mem);
  }
  assert_int_equal(wrong, 0);
}

static void test_proved(void **state)
{
  (void)state;
  check(proved, COUNT(proved), true);
}

static void test_unproved(void **state)
{
  (void)state;
  check(unproved, COUNT(unproved), false);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_proved), cmocka_unit_test(test_unproved)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
