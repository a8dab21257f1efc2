// Size of the pictures in the grid: as many pixels as their places have.

import { createSignal, onCleanup, type Accessor } from "solid-js";

/** Pixels of the display for each CSS pixel: more on each side are not seen in a small picture. */
const MOST_DENSITY = 2;
/** Steps of the width of a picture in pixels, so that a window whose size is changed asks for few sizes. */
const STEP = 32;
/** Width of a column in CSS pixels before it is known. */
const USUAL_WIDTH = 300;

/** Returns the pixels of a picture in a place of this width in CSS pixels, 16 wide and 9 high. */
function pixelsOf(width: number): number {
  const wide = Math.ceil((width * Math.min(devicePixelRatio, MOST_DENSITY)) / STEP) * STEP;
  return Math.round((wide * wide * 9) / 16);
}

/** Returns a `ref` for a grid, and the pixels of a picture as wide as its first column. */
export function createPicturePixels(): [ref: (grid: Element) => void, pixels: Accessor<number>] {
  const [pixels, setPixels] = createSignal(pixelsOf(USUAL_WIDTH));
  const ref = (grid: Element) => {
    const observer = new ResizeObserver(() => {
      const width = Number.parseFloat(getComputedStyle(grid).gridTemplateColumns);
      if (width > 0) setPixels(pixelsOf(width));
    });
    observer.observe(grid);
    onCleanup(() => observer.disconnect());
  };
  return [ref, pixels];
}
