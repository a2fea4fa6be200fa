"""The one style sheet of live views: Jupyter's theme variables, each with a fallback for front ends that define none.

Everything is scoped to ``.rightlab-view``. Static forms carry no style sheet; they look right without (spec jupyter
1.5, 1.6).
"""

__all__ = ["STYLE"]

STYLE = """
.rightlab-view {
  --rl-text: var(--jp-ui-font-color1, inherit);
  --rl-line: var(--jp-border-color1, rgba(127,127,127,.5));
  --rl-faint: var(--jp-layout-color2, rgba(127,127,127,.12));
  --rl-focus: var(--jp-brand-color1, #1976d2);
  color: var(--rl-text);
  font-family: var(--jp-ui-font-family, system-ui, sans-serif);
  font-size: var(--jp-ui-font-size1, 13px);
  max-width: 100%;
  overflow: hidden;
}
.rightlab-view .widget-box { overflow: visible; max-width: 100%; }
.rightlab-view .widget-html, .rightlab-view .widget-html-content { height: auto; line-height: 1.5; width: 100%; }
.rightlab-view .rightlab-controls { flex-flow: row wrap; gap: 4px 8px; align-items: center; }
.rightlab-view .rightlab-controls .widget-button { width: auto; padding: 0 12px; }
.rightlab-view .rightlab-note { flex: 1 1 16em; min-height: 1.5em; }
.rightlab-view .rightlab-note p { margin: 2px 0; }
.rightlab-view .widget-button {
  background: var(--rl-faint); color: var(--rl-text); border: 1px solid var(--rl-line);
}
.rightlab-view .widget-label { color: var(--rl-text); }
.rightlab-view table { border-collapse: collapse; margin: 4px 0; }
.rightlab-view th, .rightlab-view td { padding: 2px 8px; vertical-align: top; overflow-wrap: anywhere; }
.rightlab-view thead { border-bottom: 1px solid var(--rl-line); }
.rightlab-view tbody tr:nth-child(even) { background: var(--rl-faint); }
.rightlab-view tbody tr[data-selected="true"] { outline: 2px solid var(--rl-focus); outline-offset: -2px; }
.rightlab-view caption { text-align: left; caption-side: top; padding: 4px 0; color: var(--rl-text); }
.rightlab-view pre { font-family: var(--jp-code-font-family, monospace); max-height: 24em; overflow: auto; }
.rightlab-view summary { cursor: pointer; }
.rightlab-view .rightlab-grid { overflow-x: auto; }
.rightlab-view .rightlab-grid button {
  font: inherit; color: inherit; background: none; border: 1px solid var(--rl-line); border-radius: 2px;
  padding: 1px 8px; cursor: pointer;
}
.rightlab-view .rightlab-grid th button { border-color: transparent; padding: 0; font-weight: bold; }
.rightlab-view .rightlab-grid nav { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; }
.rightlab-view .rightlab-grid [aria-busy="true"] { opacity: .6; }
.rightlab-view :focus-visible { outline: 2px solid var(--rl-focus); outline-offset: 1px; }
"""
