// Menus of actions.

import { DropdownMenu } from "@kobalte/core/dropdown-menu";
import Ellipsis from "lucide-solid/icons/ellipsis";
import { createSignal, For, onMount, Show, type JSX } from "solid-js";

interface Item {
  label: string;
  onSelect: () => void;
  disabled?: boolean;
  danger?: boolean;
  /** Whether a line separates it from the one before. */
  separated?: boolean;
}

interface MenuProps {
  label: string;
  items: readonly Item[];
  children?: JSX.Element;
}

/**
 * A button that opens a menu. `label` is its name; it shows three dots unless it has children. The menu behind it is made when the
 * button is pressed first: a page of the fleet has hundreds.
 */
export function Menu(props: MenuProps) {
  const [isMade, setMade] = createSignal(false);
  const make = (event: Event) => {
    event.preventDefault();
    setMade(true);
  };
  return (
    <Show when={isMade()} fallback={
      <button type="button" class="button quiet" classList={{ icon: props.children === undefined }} aria-label={props.label}
        aria-haspopup="true" aria-expanded="false" onClick={make}
        onKeyDown={(event) => (event.key === "ArrowDown" || event.key === "ArrowUp") && make(event)}>
        {props.children ?? <Ellipsis size={18} />}
      </button>
    }>
      <MadeMenu {...props} />
    </Show>
  );
}

/** The menu with its button, which takes the focus and opens it. */
function MadeMenu(props: MenuProps) {
  let trigger!: HTMLButtonElement;
  onMount(() => {
    trigger.focus();
    trigger.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
  });
  return (
    <DropdownMenu>
      <DropdownMenu.Trigger ref={trigger} class="button quiet" classList={{ icon: props.children === undefined }}
        aria-label={props.label}>
        {props.children ?? <Ellipsis size={18} />}
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content class="menu">
          <For each={props.items}>
            {(item) => (
              <>
                <Show when={item.separated}><DropdownMenu.Separator /></Show>
                <DropdownMenu.Item class="menu-item" classList={{ danger: item.danger ?? false }}
                  disabled={item.disabled ?? false} onSelect={item.onSelect}>
                  {item.label}
                </DropdownMenu.Item>
              </>
            )}
          </For>
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu>
  );
}
