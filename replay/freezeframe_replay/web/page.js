// What a page of the service adds for those who run scripts: copy buttons. It sends nothing and reads no other page.
"use strict";

// Put a button after each element that names a text, or the element whose text is to be copied.
function addCopyButtons() {
  for (const place of document.querySelectorAll("[data-copy], [data-copy-from]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", `Copy the ${place.dataset.copyName}`);
    button.addEventListener("click", async () => {
      const text = place.dataset.copy ?? document.getElementById(place.dataset.copyFrom).textContent;
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Not allowed";
      }
    });
    place.after(button);
  }
}

document.addEventListener("DOMContentLoaded", addCopyButtons);
