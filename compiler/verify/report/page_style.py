"""The style sheet of the page: light and dark, screen and print, without external fonts or images."""

from typing import Final

STYLE: Final = """
:root { color-scheme: light dark; --ground: #fbfaf7; --card: #fff; --ink: #1d2125; --soft: #5c656e; --line: #dfddd6;
  --good: #19713f; --good-ground: #e7f4ec; --bad: #b3261e; --bad-ground: #fcebe9; --unseen: #6a7078; --code: #f3f1ec;
  }
@media (prefers-color-scheme: dark) { :root { --ground: #14171a; --card: #1c2024; --ink: #e6e8ea; --soft: #9aa4ae;
  --line: #31373d; --good: #5fc98b; --good-ground: #16301f; --bad: #ff8a80; --bad-ground: #3a1c1a; --unseen: #98a1aa;
  --code: #23282d; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 3rem 1.5rem 4rem; }
h1 { font-size: 2.1rem; line-height: 1.2; margin: 0; letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 3rem 0 .8rem; }
h3 { font-size: 1.05rem; margin: 1.8rem 0 .6rem; font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
h4 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; }
small { color: var(--soft); font-size: .84em; font-weight: normal; }
.kicker { margin: 0 0 .3rem; color: var(--soft); font-size: .82rem; letter-spacing: .08em; text-transform: uppercase;
  }
header .facts { margin-top: 1.2rem; gap: .15rem .9rem; font-size: .86rem; }
.target { margin: .4rem 0 0; color: var(--soft); overflow-wrap: anywhere; }
.target strong { color: var(--ink); }
.verdict { margin: 1.8rem 0 0; padding: 1.3rem 1.5rem 1.1rem; border-radius: .7rem; border: 1px solid var(--line);
  border-left: .35rem solid var(--good); background: var(--card); }
.verdict.bad { border-left-color: var(--bad); }
.verdict p { margin: 0 0 1rem; font-size: 1.12rem; font-weight: 600; }
.verdict .caution { color: var(--bad); font-size: 1rem; }
.bar { display: flex; height: .6rem; border-radius: .3rem; overflow: hidden; background: var(--line); }
.bar .pass { background: var(--good); } .bar .fail { background: var(--bad); }
  .bar .unseen { background: var(--unseen); }
.figures { display: flex; flex-wrap: wrap; gap: .6rem 2.2rem; margin: 1rem 0 0; }
.figures div { display: flex; flex-direction: column-reverse; }
.figures dd { margin: 0; line-height: 1.3; font-size: 1.5rem; font-weight: 650; font-variant-numeric: tabular-nums; }
.figures dt { color: var(--soft); font-size: .85rem; }
.figures .pass dd, span.pass { color: var(--good); }
  .figures .fail dd, span.fail { color: var(--bad); }
.figures .unseen dd, .figures .none dd, span.unseen { color: var(--unseen); }
.unshown { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
[id] { scroll-margin-top: 3rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; padding: .38rem .7rem .38rem 0; border-bottom: 1px solid var(--line);
  vertical-align: baseline;
  }
.rules td, .rules thead th:not(:first-child) { text-align: right; font-variant-numeric: tabular-nums; width: 7.5rem;
  padding-right: 0; padding-left: .7rem; }
thead th { color: var(--soft); font-weight: 500; font-size: .82rem; }
.rules tbody th { font: 500 .88rem ui-monospace, "SF Mono", Menlo, Consolas, monospace;
  overflow-wrap: break-word; }
.rules a { color: inherit; text-decoration-color: var(--line); text-underline-offset: .2em; }
.rules .broken th, .rules .broken td:nth-child(3) { color: var(--bad); }
.rules .broken td:nth-child(3) { font-weight: 650; }
.failure { border: 1px solid var(--line); border-radius: .6rem; background: var(--card); padding: 1rem 1.2rem;
  margin: 0 0 .8rem; }
.reason { margin: .35rem 0 .8rem; color: var(--bad); overflow-wrap: anywhere; }
.facts { display: grid; grid-template-columns: 7.5rem minmax(0, 1fr); gap: .35rem .9rem; margin: 0; font-size: .9rem;
  }
.facts dt { color: var(--soft); } .facts dd { margin: 0; overflow-wrap: anywhere; }
.facts code { display: block; }
code { font: .86em/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace; background: var(--code);
  border-radius: .3rem;
  padding: .15rem .4rem; overflow-wrap: anywhere; white-space: pre-wrap; -webkit-box-decoration-break: clone;
  box-decoration-break: clone; }
details.more > summary { color: var(--soft); cursor: pointer; margin: .2rem 0 1rem; }
details.rule { border-bottom: 1px solid var(--line); padding: .5rem 0; }
details.rule > summary { cursor: pointer; overflow-wrap: anywhere; }
details.rule strong { font: 550 .92rem ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
.declared { color: var(--soft); font-size: .86rem; margin: .4rem 0 .3rem; overflow-wrap: anywhere; }
.checks td:first-child { width: 1.6rem; font-weight: 700; } .checks td:nth-child(2) { overflow-wrap: anywhere; }
.checks td:nth-child(3), .checks td:nth-child(4) { color: var(--soft); white-space: nowrap; font-size: .85rem; }
.reasons { padding-left: 1.1rem; }
footer { margin-top: 3.5rem; padding-top: 1.2rem; border-top: 1px solid var(--line); color: var(--soft);
  font-size: .88rem; }
@media (max-width: 40rem) { main { padding: 1.6rem 1rem 3rem; } .facts { grid-template-columns: minmax(0, 1fr);
  gap: .1rem; }
  .checks thead { display: none; } .checks tr { display: grid; grid-template-columns: 1.6rem minmax(0, 1fr);
  border-bottom: 1px solid var(--line); padding: .3rem 0; } .checks td { border: 0; padding: .05rem 0; }
  .checks td:nth-child(3), .checks td:nth-child(4) { grid-column: 2; white-space: normal; }
  .checks td:nth-child(3)::before { content: "in case "; } .checks td:nth-child(4)::before { content: "due: "; }
  .checks td:empty { display: none; } .figures { gap: .5rem 1.5rem; }
  header .facts { gap: 0; }
  .facts dd { margin-bottom: .5rem; } .rules td, .rules thead th:not(:first-child) { width: auto; } }
@media print { main { max-width: none; padding: 0; } h2, h3, h4 { break-after: avoid; }
  details.rule, .failure { break-inside: avoid; } body { background: #fff; } }
"""
"""The sheet."""
