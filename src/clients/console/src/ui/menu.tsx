// Menus of actions.

import { DropdownMenu } from "@kobalte/core/dropdown-menu";
import Ellipsis from "lucide-solid/icons/ellipsis";
import { For, Show, type JSX } from "solid-js";

interface Item {
  label: string;
  onSelect: () => void;
  disabled?: boolean;
  danger?: boolean;
  /** Whether a line separates it from the one before. */
  separated?: boolean;
}

/** A button that opens a menu. `label` is its name; it shows three dots unless it has children. */
export function Menu(props: { label: string; items: readonly Item[]; children?: JSX.Element }) {
  return (
    <DropdownMenu>
      <DropdownMenu.Trigger class="button quiet" classList={{ icon: props.children === undefined }} aria-label={props.label}>
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
