"""The front end of the prompt view: sections to choose from, the text of one, and what the model reads of it.

Only the chosen section's text is in the widget's state. Edits travel as messages, numbered per page, so that an
answer to an earlier one never takes back what was typed since.
"""

from typing import Any

import anywidget
from traitlets import Int, List, Unicode

__all__ = ["PAUSE_MS", "PromptEditor"]

PAUSE_MS = 120
"""How long nobody has typed when an edit is sent."""

_SCRIPT = """
const make = (tag, props = {}, ...inside) => {
  const node = Object.assign(document.createElement(tag), props);
  node.append(...inside);
  return node;
};

// Arrows choose and scroll here, Shift+Enter is a line: none of them is a command to the notebook. JupyterLab looks
// at the element that has the focus first, so that the mark must be on it.
const ours = node => { node.dataset.lmSuppressShortcuts = "true"; return node; };

function render({ model, el }) {
  const me = Math.random().toString(36).slice(2);
  const caption = make("caption"), head = make("tr"), body = make("tbody");
  const list = ours(make("div", { className: "list", tabIndex: 0 },
    make("table", {}, caption, make("thead", {}, head), body)));
  const area = ours(make("textarea", { spellcheck: false, rows: 16 }));
  const label = make("span", { className: "name" }), why = make("span", { className: "why" });
  const shown = ours(make("div", { className: "shown", tabIndex: 0 }));
  const named = make("strong", { textContent: "What the model reads" });
  const note = make("span");
  note.setAttribute("role", "status");
  for (const [node, name] of [[list, "Sections"], [shown, "What the model reads"]]) {
    node.setAttribute("role", "region");
    node.setAttribute("aria-label", name);
  }

  let section = null, sent = "", number = 0, answered = 0, timer = 0, slow = 0;
  const waiting = () => timer !== 0 || number > answered;
  const drawNote = late => {
    shown.ariaBusy = String(waiting());
    note.textContent = late && waiting()
      ? "The kernel has not answered yet: it is busy, or gone." : model.get("status");
  };
  const flush = () => {
    if (!timer) return;
    clearTimeout(timer);
    timer = 0;
    sent = area.value;
    number += 1;
    performance.clearMarks("rightlab-edit");
    performance.mark("rightlab-edit");
    model.send({ kind: "edit", section, text: sent, page: me, number });
    clearTimeout(slow);
    slow = setTimeout(() => drawNote(true), 3000);
    drawNote(false);
  };
  area.oninput = () => {
    clearTimeout(timer);
    timer = setTimeout(flush, model.get("pause"));
  };
  area.onblur = flush;
  // What listens further out would take Enter away.
  area.onkeydown = area.onkeypress = event => event.stopPropagation();

  const drawText = () => {
    const text = model.get("text"), locked = model.get("locked");
    if (model.get("selected") !== section) {
      flush();
      section = model.get("selected");
      sent = area.value = text;
    } else if (!waiting() && text !== area.value) {
      const at = [area.selectionStart, area.selectionEnd];
      sent = area.value = text;
      area.setSelectionRange(...at);
    }
    label.textContent = model.get("label");
    why.textContent = locked ? `Read only: ${locked}.` : "";
    area.readOnly = locked !== "";
  };
  const drawAnswer = () => {
    const [page, last] = model.get("answered").split(":");
    if (page === me) answered = Math.max(answered, Number(last));
    if (!waiting()) clearTimeout(slow);
    drawText();
    drawNote(false);
  };
  const drawShown = () => {
    shown.innerHTML = model.get("shown");
    performance.clearMarks("rightlab-shown");
    performance.mark("rightlab-shown");
  };

  const group = "sections-" + me;
  let order = "";
  const drawRows = () => {
    const columns = model.get("columns"), rows = model.get("rows"), keys = model.get("row_keys");
    if (order !== keys.join("\\n") || !body.children.length) {
      order = keys.join("\\n");
      const held = body.contains(el.getRootNode().activeElement);
      head.replaceChildren(make("th", { scope: "col", textContent: "edit" }), ...columns.map(([name, side]) => {
        const cell = make("th", { scope: "col", textContent: name });
        cell.style.textAlign = side;
        return cell;
      }));
      body.replaceChildren(...keys.map(key => {
        const pick = ours(make("input", { type: "radio", name: group, value: key, ariaLabel: "Edit " + key }));
        pick.onchange = () => { flush(); model.send({ kind: "select", section: key }); };
        const cells = columns.map(([, side], i) => {
          const cell = i === 1 ? make("th", { scope: "row" }) : make("td");
          cell.style.textAlign = side;
          return cell;
        });
        const line = make("tr", {}, make("td", {}, pick), ...cells);
        line.onclick = event => { if (event.target !== pick) pick.click(); };
        return line;
      }));
      if (held) body.querySelector(`input[value="${CSS.escape(model.get("selected"))}"]`)?.focus();
    }
    rows.forEach((texts, at) => {
      const cells = body.children[at].children;
      texts.forEach((text, i) => { if (cells[i + 1].textContent !== text) cells[i + 1].textContent = text; });
    });
    caption.textContent = model.get("caption");
    drawPick();
  };
  const drawPick = () => {
    for (const line of body.children) {
      const pick = line.firstChild.firstChild;
      pick.checked = pick.value === model.get("selected");
      line.dataset.selected = pick.checked;
    }
  };

  const listen = { "change:rows change:row_keys change:columns change:caption": drawRows, "change:selected": drawPick,
    "change:selected change:text change:locked change:label": drawText, "change:answered": drawAnswer,
    "change:shown": drawShown, "change:status": () => drawNote(false) };
  for (const [names, draw] of Object.entries(listen)) model.on(names, draw);
  el.classList.add("rightlab-prompt");
  el.append(list, make("div", { className: "pair" },
    make("label", {}, label, area, why), make("section", {}, named, shown)), note);
  drawRows();
  drawText();
  drawShown();
  drawNote(false);
  return () => {
    flush();
    clearTimeout(slow);
    for (const [names, draw] of Object.entries(listen)) model.off(names, draw);
  };
}
export default { render };
"""

_LOOKS = """
.rightlab-prompt .list { max-height: 26em; overflow: auto; }
.rightlab-prompt .list tbody tr { cursor: pointer; }
.rightlab-prompt .list tbody th { font-weight: normal; }
.rightlab-prompt .list thead th { position: sticky; top: 0; background: var(--jp-layout-color1, Canvas); }
.rightlab-prompt .pair {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24em), 1fr)); gap: 8px;
}
.rightlab-prompt .pair > * { display: flex; flex-direction: column; min-width: 0; }
.rightlab-prompt .name { font-weight: bold; }
.rightlab-prompt textarea, .rightlab-prompt .shown {
  box-sizing: border-box; width: 100%; height: 20em; overflow: auto; margin: 2px 0; padding: 4px 8px;
  border: 1px solid var(--rl-line); color: inherit; background: var(--jp-layout-color0, transparent);
  font-family: var(--jp-code-font-family, monospace); font-size: var(--jp-code-font-size, 13px); line-height: 1.4;
}
.rightlab-prompt textarea { resize: vertical; white-space: pre-wrap; }
.rightlab-prompt textarea:read-only { background: var(--rl-faint); }
.rightlab-prompt .shown p { margin: 0 0 4px; }
.rightlab-prompt .shown pre {
  margin: 0; border: 0 !important; padding: 0 !important; max-height: none; overflow: visible;
  font: inherit; color: inherit; word-break: normal; overflow-wrap: anywhere;
}
.rightlab-prompt .shown[aria-busy="true"] { opacity: .7; }
"""


class PromptEditor(anywidget.AnyWidget):
    """The widget; :class:`rightlab.views.PromptView` fills it.

    ``rows`` are texts under ``columns`` (heading, side), ``row_keys`` the sections' names. ``text`` is that of the
    section ``selected``, ``locked`` why it cannot be edited, ``shown`` our own markup of what the model reads,
    ``answered`` the last edit that is in it, as ``page:number``.
    """

    _esm = Unicode().tag(sync=True)
    _css = Unicode().tag(sync=True)
    caption = Unicode().tag(sync=True)
    columns = List(List(Unicode())).tag(sync=True)
    rows = List(List(Unicode())).tag(sync=True)
    row_keys = List(Unicode()).tag(sync=True)
    selected = Unicode().tag(sync=True)
    label = Unicode().tag(sync=True)
    locked = Unicode().tag(sync=True)
    text = Unicode().tag(sync=True)
    shown = Unicode().tag(sync=True)
    status = Unicode().tag(sync=True)
    answered = Unicode().tag(sync=True)
    pause = Int(0).tag(sync=True)

    def __init__(self, **traits: Any) -> None:
        # Not as the traits' defaults: state saved without defaults would come back without them.
        super().__init__(_esm=_SCRIPT, _css=_LOOKS, pause=PAUSE_MS, **traits)
