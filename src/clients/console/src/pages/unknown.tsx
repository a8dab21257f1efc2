// Answer to an address without a page.

import { createTitle } from "../app/title";
import { Empty, LinkButton } from "../ui";

/** The page. */
export default function Unknown() {
  createTitle(() => "No such page");
  return (
    <Empty title="There is no page at this address">
      <p>Check the address, or press Ctrl+K to find a page or a computer by its name.</p>
      <LinkButton href="/console">Go to the computers</LinkButton>
    </Empty>
  );
}
