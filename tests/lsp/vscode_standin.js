// A stand-in of the part of VS Code that editors/vscode/extension.js uses: test_vscode.sh.
"use strict";
const assert = require("assert");
const Module = require("module");
const path = require("path");

const providers = {};
const handlers = {};
const diagnostics = new Map();
let told = () => {};
class Range { constructor(...at) { this.at = at; } }
class Item { constructor(label, kind) { Object.assign(this, { label, kind }); } }
class Diagnostic { constructor(range, message, severity) { Object.assign(this, { range, message, severity }); } }
class Hover { constructor(text, range) { Object.assign(this, { text, range }); } }
const on = (name) => (handler) => ((handlers[name] = handler), { dispose() {} });
const provide = (name) => (languages, provider) => ((providers[name] = provider), { dispose() {} });
const standin = {
  Range, Diagnostic, Hover, CompletionItem: Item, MarkdownString: String, Uri: { parse: (s) => s }, TextEdit: { replace: (range, text) => ({ range, text }) },
  window: { showWarningMessage: (text) => { throw new Error(text); } },
  workspace: {
    getConfiguration: () => ({ get: () => process.env.MICA }), textDocuments: [], onDidOpenTextDocument: on("open"), onDidChangeTextDocument: on("change"),
    onDidCloseTextDocument: on("close") },
  languages: {
    createDiagnosticCollection: () => ({ set: (uri, list) => { diagnostics.set(uri, list); told(); } }), registerHoverProvider: provide("hover"),
    registerCompletionItemProvider: provide("completion"), registerDocumentFormattingEditProvider: provide("formatting") } };
const load = Module._load;
Module._load = (name, ...rest) => (name === "vscode" ? standin : load(name, ...rest));
const { activate } = require(path.resolve("editors/vscode/extension.js"));

const document = (text) => ({ uri: "file:///p.mica", languageId: "mica", version: 1, getText: () => text });
const next = () => new Promise((resolve) => { told = resolve; });

async function main() {
  const context = { subscriptions: [] };
  const server = activate(context);
  const good = document("program p {\n  X: f32[4,8]\n  return exp(X)\n}\n");
  let waiting = next();
  handlers.open(good);
  await waiting;
  assert.deepStrictEqual(diagnostics.get(good.uri), []);
  const hover = await providers.hover.provideHover(good, { line: 2, character: 10 });
  assert(String(hover.text).includes("f32[4, 8]") && String(hover.text).includes("**exp**"));
  const items = await providers.completion.provideCompletionItems(good, { line: 2, character: 9 });
  assert(items.some((i) => i.label === "matmul" && i.kind === 2) && items.some((i) => i.label === "X"));
  const edits = await providers.formatting.provideDocumentFormattingEdits(good);
  assert(edits.length === 1 && edits[0].text.includes("f32[4, 8]"));
  waiting = next();
  handlers.change({ document: document("program p {\n  return Y\n}\n") });
  await waiting;
  assert(diagnostics.get(good.uri)[0].code === "unknown-name" && diagnostics.get(good.uri)[0].severity === 0);
  const end = new Promise((resolve) => server.process.on("exit", resolve));
  standin.window.showWarningMessage = () => {};
  context.subscriptions.forEach((s) => s.dispose && s.dispose());
  assert.strictEqual(await end, 0);
  console.log("all passed");
}
main().catch((error) => { console.error(error); process.exit(1); });
