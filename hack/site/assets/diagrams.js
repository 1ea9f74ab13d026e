// Draws the page's diagrams from their text, in the colours that the reader prefers.
import mermaid from "./mermaid/dist/mermaid.esm.min.mjs";

const dark = matchMedia("(prefers-color-scheme: dark)");
const diagrams = [...document.querySelectorAll("pre.mermaid")].map((element) => ({ element, text: element.textContent }));

async function draw() {
  mermaid.initialize({ startOnLoad: false, securityLevel: "strict", theme: dark.matches ? "dark" : "neutral", fontFamily: "system-ui, sans-serif" });
  for (const [n, { element, text }] of diagrams.entries()) {
    const { svg } = await mermaid.render(`diagram-${n}`, text);
    element.innerHTML = svg;
  }
}

dark.addEventListener("change", draw);
await draw();
