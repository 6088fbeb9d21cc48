package main

// pageText is the template of the HTML report. Every element is closed, so that
// it reads as XML too.
const pageText = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta name="color-scheme" content="light dark"/>
<title>{{.Title}}</title>
<style>
:root {
  --page: #fbfbf9; --card: #ffffff; --ink: #1c2024; --soft: #5c6670; --rule: #e2e4e1; --bar: #00000012;
  --actor: #0b62d6; --raw-batch: #77808a; --sync-pool: #c4520a; --sync: #a87600; --sync-one: #8a5a44; --gorqlite: #0a7f6f; --queued: #9c36b5;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171a; --card: #1c2125; --ink: #e8eaec; --soft: #9aa5b0; --rule: #2f363c; --bar: #ffffff17;
    --actor: #6cb0ff; --raw-batch: #a3adb7; --sync-pool: #ff9a57; --sync: #e3b341; --sync-one: #cf9d84; --gorqlite: #45d0b8; --queued: #d997ee;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1440px; margin: 0 auto; padding: 32px 24px 64px; }
h1 { font-size: 25px; line-height: 1.25; margin: 0 0 4px; }
h2 { font-size: 20px; margin: 48px 0 0; }
h3 { font-size: 15px; margin: 0; }
p { margin: 4px 0; }
.lead { max-width: 100ch; }
.soft { color: var(--soft); }
.answers { display: flex; flex-wrap: wrap; gap: 16px; margin: 24px 0; }
.answer, figure, .tablebox, .settings { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; }
.answer { padding: 14px 20px; min-width: 230px; }
.answer b { display: block; font-size: 34px; line-height: 1.15; color: var(--actor); font-variant-numeric: tabular-nums; }
.settings { display: grid; grid-template-columns: max-content 1fr; gap: 2px 18px; margin: 16px 0; padding: 14px 20px; }
.settings dt { color: var(--soft); }
.settings dd { margin: 0; overflow-wrap: anywhere; }
.legend { display: grid; grid-template-columns: max-content 1fr; gap: 4px 12px; margin: 16px 0; padding: 0; list-style: none; }
.legend li { display: contents; }
.legend svg { width: 14px; height: 14px; margin-right: 8px; vertical-align: -2px; overflow: visible; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); gap: 16px; margin: 16px 0; }
figure { margin: 0; padding: 16px 18px 8px; display: flex; flex-direction: column; }
figcaption p { color: var(--soft); font-size: 13px; }
figure svg { display: block; width: 100%; height: auto; margin-top: auto; padding-top: 8px; }
svg text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: var(--soft); }
svg text.name { fill: var(--c); font-weight: 600; }
.grid { stroke: var(--rule); stroke-width: 1; }
.axis { stroke: var(--soft); stroke-width: 1; }
.line { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; }
.leader { fill: none; stroke: var(--c); stroke-width: 1; opacity: .35; }
.mark { fill: var(--c); stroke: var(--card); stroke-width: 1.5; }
.actor { --c: var(--actor); } .raw-batch { --c: var(--raw-batch); } .sync-pool { --c: var(--sync-pool); } .sync { --c: var(--sync); }
.sync-one { --c: var(--sync-one); } .gorqlite { --c: var(--gorqlite); } .queued { --c: var(--queued); }
.swatch { color: var(--c); font-weight: 600; white-space: nowrap; }
.tablebox { overflow-x: auto; padding: 8px 18px 12px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 10px; text-align: right; white-space: nowrap; }
th { color: var(--soft); font-weight: 500; font-size: 13px; border-bottom: 1px solid var(--rule); }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
tbody + tbody tr:first-child td { border-top: 1px solid var(--rule); }
td.speed { background: linear-gradient(to left, var(--bar) var(--share), transparent var(--share)); }
td:nth-child(4) { font-weight: 600; }
footer { margin-top: 40px; font-size: 13px; color: var(--soft); }
footer li { margin: 2px 0; }
</style>
</head>
<body>
<main>
<h1>{{.Title}}</h1>
<p class="soft lead">The same work on the same database in the same run, in rounds that take turns. The ratios are worth comparing; absolute numbers belong to this machine and its load. All callers wait for each answer before they go on. The synchronous modes have as many requests under way as there are callers, so whatever the database itself does for concurrent requests helps them already: what the actor gains comes on top.</p>
{{if .Answers}}<div class="answers">
{{range .Answers}}<div class="answer"><h3>{{.What}}</h3><b>{{.Ratio}}</b><span class="soft">{{.Detail}}</span></div>
{{end}}</div>{{end}}
<dl class="settings">
{{range .Settings}}<dt>{{index . 0}}</dt><dd>{{index . 1}}</dd>
{{end}}</dl>
<ul class="legend">
{{range .Modes}}<li><span class="swatch {{.Name}}"><svg viewBox="-7 -7 14 14" aria-hidden="true"><g class="mark">{{marker .Name}}</g></svg>{{.Name}}</span><span>{{.About}}</span></li>
{{end}}</ul>
{{range .Sections}}
<section>
<h2>{{.Op}}</h2>
<p class="soft">{{.About}}</p>
<div class="charts">
{{range .Charts}}<figure><figcaption><h3>{{.Title}}</h3><p>{{.Note}}</p></figcaption>
{{.SVG}}</figure>
{{end}}</div>
<div class="tablebox"><table>
<thead><tr>{{range .Columns}}<th>{{.}}</th>{{end}}</tr></thead>
{{range .Groups}}<tbody>
{{range .}}{{$row := .}}<tr>{{range $i, $c := .Cells}}{{if eq $i 0}}<td><span class="swatch {{$row.Class}}">{{$c}}</span></td>{{else if eq $i 2}}<td class="speed" style="--share: {{printf "%.1f" $row.Bar}}%">{{$c}}</td>{{else}}<td>{{$c}}</td>{{end}}{{end}}</tr>
{{end}}</tbody>
{{end}}</table></div>
</section>
{{end}}
<footer><ul>
{{range .Notes}}<li>{{.}}</li>
{{end}}</ul></footer>
</main>
</body>
</html>
`
