// One call in the list of what happened. It is drawn once and changed in place: what is open stays open.

import { drawDiff } from "./diff.js";
import { badge, confirm, h, headline, riskBadge, time } from "./dom.js";
import { request } from "./live.js";
import { beginRule } from "./rules.js";
import { words } from "./words.js";

const say = words.activity;
const MAX_OUTPUT_CHARS = 200_000;
const MAX_OUTPUTS = 50;
const KINDS = { COMPLETED: "good", FAILED: "risk-high", REJECTED: "risk-medium", TIMEOUT: "risk-medium", EXECUTING: "live", refused: "risk-medium" };
const outputs = new Map(); // what commands wrote while this page looked, by key
const watching = new Map(); // rows whose details are open, by key

export const keyOf = ({ workspace, tool_id: id }) => `${workspace} ${id}`;

export class Row {
  constructor() {
    this.call = {};
    this.summary = h("summary", {});
    this.details = h("details", { ontoggle: () => this.toggle() }, this.summary);
    this.element = h("li", {}, this.details);
    this.word = h("p", { role: "status" });
  }

  update(call) {
    const { at } = this.call;
    Object.assign(this.call, call);
    this.call.at = call.at ?? at;
    const { risk, state, verdict } = this.call;
    const word = state === "FAILED" && verdict === "refuse" ? "refused" : state;
    this.summary.replaceChildren(time(this.call.at), badge(say.states[word] ?? word, KINDS[word] ?? ""), riskBadge(risk) ?? "",
      h("span", { class: "what" }, headline({ kind: this.call.tool, ...this.call })));
    if (this.details.open) this.draw();
  }

  toggle() {
    const key = keyOf(this.call);
    if (this.details.open) watching.set(key, this);
    else watching.delete(key);
    if (this.details.open) this.draw();
  }

  draw() {
    const { call } = this;
    this.body?.remove();
    this.body = h("div", {}, h("dl", { class: "parameters" },
      pair(say.decision, call.verdict ? `${call.verdict} (${call.code})` : ""),
      pair(say.facts, (call.facts ?? []).join("; ")),
      pair(say.answeredBy, call.approver), pair(say.rule, call.rule_id), pair(say.grant, call.grant_id), pair(say.failure, call.failure),
      pair(say.took, typeof call.took_s === "number" ? say.ms(call.took_s * 1000) : ""),
      pair(say.parameters, call.parameters), pair(say.call, call.tool_id), pair(say.session, call.session), pair(say.workspaceName, call.workspace)),
    h("p", {},
      call.tool === "write_file" && call.state === "COMPLETED" ? h("button", { type: "button", onclick: () => this.undo() }, words.undo.begin) : null, " ",
      h("button", { type: "button", class: "link", onclick: () => beginRule({ kind: call.tool, ...call }) }, words.rules.make)),
    this.word);
    this.details.append(this.body);
    this.pre = null;
    this.drawOutput();
  }

  // Shows what taking the write back would do, and does it after a yes. Once more, and that is taken back in turn.
  async undo() {
    const write = { id: this.undone ?? this.call.tool_id, workspace: this.call.workspace };
    const { title, actions, yes, no, done, left } = words.undo;
    try {
      const { action, change, write: { path } } = await request("undo.preview", write);
      const body = [drawDiff(change), change.left_out ? h("p", { class: "warning" }, left(change.left_out)) : null];
      if (!await confirm({ title, text: actions[action](path), yes, no, body: body.flat() })) return;
      this.undone = (await request("undo.apply", write)).id;
      this.word.textContent = done(this.undone);
    } catch (error) {
      this.word.textContent = error.message;
    }
  }

  // What came since it was last drawn is added at the end; who has scrolled up stays there.
  drawOutput() {
    const output = outputs.get(keyOf(this.call));
    if (!output) return;
    if (!this.pre) {
      this.pre = h("pre", { class: "output", tabindex: "0", role: "log", "aria-label": say.outputLabel });
      this.body.append(h("h4", {}, this.call.state === "EXECUTING" ? say.live : say.output), this.pre);
      this.drawn = output.from;
    }
    const atEnd = this.pre.scrollTop + this.pre.clientHeight >= this.pre.scrollHeight - 8;
    for (const piece of output.pieces.slice(Math.max(0, this.drawn - output.from))) this.pre.append(drawPiece(piece));
    while (this.pre.childNodes.length > output.pieces.length) this.pre.firstChild.remove();
    this.drawn = output.from + output.pieces.length;
    if (atEnd) this.pre.scrollTop = this.pre.scrollHeight;
  }

  // Kept for as many calls, and as much of each, as somebody may want to look at; the oldest goes first.
  static keepOutput(piece) {
    const key = keyOf(piece);
    const output = outputs.get(key) ?? { pieces: [], chars: 0, from: 0 };
    outputs.delete(key);
    outputs.set(key, output);
    output.pieces.push(piece);
    output.chars += piece.text.length;
    while (output.chars > MAX_OUTPUT_CHARS && output.pieces.length > 1) {
      output.chars -= output.pieces.shift().text.length;
      output.from += 1;
    }
    if (outputs.size > MAX_OUTPUTS) outputs.delete(outputs.keys().next().value);
    watching.get(key)?.drawOutput();
  }
}

function drawPiece({ stream, text, left_out: leftOut }) {
  return h("span", { class: stream }, text, leftOut ? h("em", {}, `\n${say.outputLeftOut(leftOut)}\n`) : null);
}

function pair(name, value) {
  return value ? [h("dt", {}, name), h("dd", {}, h("code", {}, value))] : [];
}
