// Settings of a computer.

import type { Computer } from "../../../api/service";
import { Password, Ssh } from "./access";
import { Egress } from "./egress";
import { AutoStop, Isolation, Name, Workspace } from "./general";
import { Remove } from "./remove";
import { SaveTemplate } from "./save-template";
import { Secrets } from "./secrets";
import { SelfTest } from "./self-test";
import { Size } from "./size";
import "./settings.css";

/** The tab. */
export default function Tab(props: { computer: Computer }) {
  return (
    <div class="computer-settings-parts">
      <Name computer={props.computer} />
      <Size computer={props.computer} />
      <AutoStop computer={props.computer} />
      <Egress computer={props.computer} />
      <Secrets computer={props.computer} />
      <Password computer={props.computer} />
      <Ssh computer={props.computer} />
      <SaveTemplate computer={props.computer} />
      <Workspace computer={props.computer} />
      <Isolation computer={props.computer} />
      <SelfTest computer={props.computer} />
      <Remove computer={props.computer} />
    </div>
  );
}
