// Colours of theme.css for what draws by itself, such as plots and terminals.

import { createMemo, createSignal, type Accessor } from "solid-js";

const dark = matchMedia("(prefers-color-scheme: dark)");
const [changes, setChanges] = createSignal(0);
const changed = () => setChanges((count) => count + 1);
// One of each for the whole page.
dark.addEventListener("change", changed);
new MutationObserver(changed).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });

/** Returns variables of theme.css, such as `accent`, as colours that a canvas takes, and again when the scheme changes. */
export function createColours<Name extends string>(...names: readonly Name[]): Accessor<Record<Name, string>> {
  return createMemo(() => {
    changes();
    // A variable itself has both colours; a property that uses it has the one of the scheme.
    const probe = document.createElement("span");
    probe.hidden = true;
    document.body.append(probe);
    const found = names.map((name) => {
      probe.style.color = `var(--${name})`;
      return [name, getComputedStyle(probe).color] as const;
    });
    probe.remove();
    return Object.fromEntries(found) as Record<Name, string>;
  });
}

