// Keys of a screen by name: what `<hotdesk-screen>` presses for a person whose own keyboard cannot.

/** A key as RFB sends it: its X keysym, and the name of its place on the keyboard (UI Events, `code`); empty without one. */
export interface Key {
  keysym: number;
  code: string;
}

/** Keys by name. Of keys that are there twice, it is the left one. */
export const KEYS = {
  Alt: { keysym: 0xffe9, code: "AltLeft" },
  ArrowDown: { keysym: 0xff54, code: "ArrowDown" },
  ArrowLeft: { keysym: 0xff51, code: "ArrowLeft" },
  ArrowRight: { keysym: 0xff53, code: "ArrowRight" },
  ArrowUp: { keysym: 0xff52, code: "ArrowUp" },
  Backspace: { keysym: 0xff08, code: "Backspace" },
  Control: { keysym: 0xffe3, code: "ControlLeft" },
  Delete: { keysym: 0xffff, code: "Delete" },
  End: { keysym: 0xff57, code: "End" },
  Enter: { keysym: 0xff0d, code: "Enter" },
  Escape: { keysym: 0xff1b, code: "Escape" },
  Home: { keysym: 0xff50, code: "Home" },
  Meta: { keysym: 0xffeb, code: "MetaLeft" },
  PageDown: { keysym: 0xff56, code: "PageDown" },
  PageUp: { keysym: 0xff55, code: "PageUp" },
  Shift: { keysym: 0xffe1, code: "ShiftLeft" },
  Tab: { keysym: 0xff09, code: "Tab" },
} as const satisfies Record<string, Key>;

/** Name of a key of {@link KEYS}. */
export type KeyName = keyof typeof KEYS;

/** Returns the key that types a character; a line feed is Enter. */
export function keyOf(character: string): Key {
  if (character === "\n" || character === "\r") return KEYS.Enter;
  if (character === "\t") return KEYS.Tab;
  const point = character.codePointAt(0) ?? 0;
  // Latin-1 has keysyms of its own; all others are those of Unicode (X protocol, "KEYSYM Encoding").
  return { keysym: point < 0x100 ? point : 0x0100_0000 + point, code: "" };
}
