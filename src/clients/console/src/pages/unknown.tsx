// Answer to an address without a page.

import { Empty, LinkButton } from "../ui";

/** The page. */
export default function Unknown() {
  return (
    <Empty title="There is no page at this address">
      <LinkButton href="/console">Go to the computers</LinkButton>
    </Empty>
  );
}
