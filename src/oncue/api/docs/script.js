"use strict";

const origin = "http://127.0.0.1:8420";

for (const command of document.querySelectorAll(".command")) {
  const code = command.querySelector("code");
  code.textContent = code.textContent.replace(origin, window.location.origin);
  const button = command.querySelector("button");
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}

const menu = document.querySelector("nav details");
const wide = window.matchMedia("(min-width: 60rem)");
const unfold = () => { menu.open = wide.matches; };
unfold();
wide.addEventListener("change", unfold);
menu.addEventListener("click", (event) => {
  if (event.target.closest("a") && !wide.matches) menu.open = false;
});
