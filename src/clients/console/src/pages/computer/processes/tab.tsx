// What runs in the computer, and what it uses.

import type { Computer } from "../../../api/service";
import { Running } from "../running";
import { Background } from "./background";
import { Ports } from "./ports";
import { Resources } from "./resources";
import { Services } from "./services";
import { Sessions } from "./sessions";
import "./processes.css";

/** The tab. */
export default function Tab(props: { computer: Computer }) {
  return (
    <Running computer={props.computer} what="Its processes">
      <div class="processes">
        <Background computer={props.computer.id} />
        <Resources computer={props.computer.id} />
        <Services computer={props.computer.id} />
        <Sessions computer={props.computer.id} />
        <Ports computer={props.computer.id} />
      </div>
    </Running>
  );
}
