// Starts `mica lsp` and hands its answers to VS Code. It needs no package of npm.
"use strict";
const vscode = require("vscode");
const { spawn } = require("child_process");

const LANGUAGES = ["mica", "mica-tile"];

class Server {
  constructor(command, notified, ended) {
    this.waiting = new Map();
    this.number = 0;
    this.data = Buffer.alloc(0);
    this.notified = notified;
    this.process = spawn(command, ["lsp"], { stdio: ["pipe", "pipe", "inherit"] });
    this.process.stdout.on("data", (data) => this.take(data));
    this.process.stdin.on("error", () => {});
    this.process.on("error", (error) => this.end(ended, String(error)));
    this.process.on("exit", (code) => this.end(ended, `exit status ${code}`));
  }

  end(ended, why) {
    for (const resolve of this.waiting.values()) resolve(null);
    this.waiting.clear();
    if (!this.ended) ended(why);
    this.ended = true;
  }

  send(message) {
    if (this.ended) return;
    const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", ...message }));
    this.process.stdin.write(`Content-Length: ${body.length}\r\n\r\n`);
    this.process.stdin.write(body);
  }

  notify(method, params) {
    this.send({ method, params });
  }

  request(method, params) {
    if (this.ended) return Promise.resolve(null);
    const id = ++this.number;
    this.send({ id, method, params });
    return new Promise((resolve) => this.waiting.set(id, resolve));
  }

  take(data) {
    this.data = Buffer.concat([this.data, data]);
    for (;;) {
      const head = this.data.indexOf("\r\n\r\n");
      if (head < 0) return;
      const length = Number(/Content-Length: (\d+)/.exec(this.data.toString("ascii", 0, head))[1]);
      if (this.data.length < head + 4 + length) return;
      const message = JSON.parse(this.data.toString("utf8", head + 4, head + 4 + length));
      this.data = this.data.subarray(head + 4 + length);
      this.got(message);
    }
  }

  got(message) {
    if (message.method) return this.notified(message);
    const resolve = this.waiting.get(message.id);
    this.waiting.delete(message.id);
    if (resolve) resolve(message.error ? null : message.result);
  }
}

const range = (r) => new vscode.Range(r.start.line, r.start.character, r.end.line, r.end.character);
const named = (document) => ({ textDocument: { uri: document.uri.toString() } });
const placed = (document, position) => ({ ...named(document), position: { line: position.line, character: position.character } });

function diagnosticsOf(list) {
  return list.map((d) => Object.assign(new vscode.Diagnostic(range(d.range), d.message, d.severity - 1), { code: d.code, source: d.source }));
}

function activate(context) {
  const wrong = vscode.languages.createDiagnosticCollection("mica");
  const command = vscode.workspace.getConfiguration("mica").get("command") || "mica";
  const server = new Server(
    command,
    (m) => m.method === "textDocument/publishDiagnostics" && wrong.set(vscode.Uri.parse(m.params.uri), diagnosticsOf(m.params.diagnostics)),
    (why) => vscode.window.showWarningMessage(`${command} lsp ended (${why}). The setting mica.command names the command.`));
  const ours = (document) => LANGUAGES.includes(document.languageId);
  const open = (d) =>
    ours(d) && server.notify("textDocument/didOpen", { textDocument: { uri: d.uri.toString(), languageId: d.languageId, version: d.version, text: d.getText() } });
  const change = ({ document: d }) =>
    ours(d) && server.notify("textDocument/didChange", { textDocument: { uri: d.uri.toString(), version: d.version }, contentChanges: [{ text: d.getText() }] });
  server.request("initialize", { processId: process.pid, rootUri: null, capabilities: {} }).then(() => server.notify("initialized", {}));
  vscode.workspace.textDocuments.forEach(open);
  context.subscriptions.push(
    wrong,
    vscode.workspace.onDidOpenTextDocument(open),
    vscode.workspace.onDidChangeTextDocument(change),
    vscode.workspace.onDidCloseTextDocument((d) => ours(d) && server.notify("textDocument/didClose", named(d))),
    vscode.languages.registerHoverProvider(LANGUAGES, {
      provideHover: async (d, p) => {
        const hover = await server.request("textDocument/hover", placed(d, p));
        return hover && new vscode.Hover(new vscode.MarkdownString(hover.contents.value), range(hover.range));
      },
    }),
    vscode.languages.registerCompletionItemProvider(LANGUAGES, {
      provideCompletionItems: async (d, p) =>
        ((await server.request("textDocument/completion", placed(d, p))) || []).map((i) =>
          Object.assign(new vscode.CompletionItem(i.label, i.kind - 1), { detail: i.detail })),
    }, "(", ","),
    vscode.languages.registerDocumentFormattingEditProvider(LANGUAGES, {
      provideDocumentFormattingEdits: async (d) =>
        ((await server.request("textDocument/formatting", { ...named(d), options: {} })) || []).map((e) => vscode.TextEdit.replace(range(e.range), e.newText)),
    }),
    { dispose: () => server.request("shutdown").then(() => server.notify("exit")) });
  return server;
}

module.exports = { activate };
