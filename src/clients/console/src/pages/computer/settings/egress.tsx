// Egress policy of a computer: which destinations it reaches.

import { createResource, createSignal, Show } from "solid-js";
import { answerOf, api, type Computer, type Schemas } from "../../../api/service";
import { Loaded, Select, TextArea } from "../../../ui";
import { Part, SaveForm } from "./part";
import { ruleFault } from "./rules";

/** Most rules of a policy. */
const MAX_RULES = 256;

type Mode = "none" | Schemas["EgressPolicyRecord"]["mode"];

const MODES: { value: Mode; label: string }[] = [
  { value: "none", label: "Everything (no policy)" },
  { value: "allow", label: "Only the destinations below" },
  { value: "block", label: "Everything except the destinations below" },
];

/** The policy and its editor. */
export function Egress(props: { computer: Computer }) {
  const [setting, { refetch, mutate }] = createResource(
    () => props.computer.id,
    (id) => answerOf(api.GET("/computers/{id}/egress-policy", { params: { path: { id } } })),
  );
  return (
    <Part title="Egress policy">
      <Loaded of={setting} what="the policy" retry={() => void refetch()}>
        {(setting) => <Form id={props.computer.id} policy={setting().egress_policy ?? undefined} onSaved={mutate} />}
      </Loaded>
    </Part>
  );
}

function Form(props: {
  id: string;
  policy: Schemas["EgressPolicyRecord"] | undefined;
  onSaved: (setting: Schemas["EgressSetting"]) => void;
}) {
  const [mode, setMode] = createSignal<Mode>();
  const [text, setText] = createSignal<string>();
  const chosen = () => mode() ?? props.policy?.mode ?? "none";
  const written = () => text() ?? (props.policy?.rules ?? []).join("\n");
  const rules = () => written().split("\n").map((line) => line.trim()).filter((line) => line !== "");
  const fault = () => {
    if (rules().length > MAX_RULES) return `At most ${MAX_RULES} destinations, not ${rules().length}.`;
    const lines = written().split("\n");
    const at = lines.findIndex((line) => line.trim() !== "" && ruleFault(line.trim()) !== undefined);
    return at < 0 ? undefined : `Line ${at + 1}: ${ruleFault((lines[at] ?? "").trim())}`;
  };
  const save = async () => {
    const wanted = chosen();
    const egress_policy = wanted === "none" ? null : { mode: wanted, rules: rules() };
    const params = { path: { id: props.id } };
    const saved = await answerOf(api.PUT("/computers/{id}/egress-policy", { params, body: { egress_policy } }));
    props.onSaved(saved);
    setMode(undefined);
    setText(undefined);
    return "The policy counts from now on";
  };
  const choose = (value: string) => setMode(MODES.find((it) => it.value === value)?.value);
  return (
    <SaveForm action="Save the policy" doing="Saving…" failed="The policy was not changed" save={save}
      disabled={(mode() === undefined && text() === undefined) || (chosen() !== "none" && fault() !== undefined)}>
      <Select label="The computer reaches" value={chosen()} onChange={choose} options={MODES}
        hint="The host enforces it; nothing in the computer can change it. Open connections to what is not permitted are cut." />
      <Show when={chosen() !== "none"}>
        <TextArea label="Destinations, one on each line" class="mono" rows={6} spellcheck={false} value={written()} error={fault()}
          hint="example.com: this name. *.example.com: all names below it. 192.0.2.7: an address. 192.0.2.0/24: a network."
          onInput={(event) => setText(event.currentTarget.value)} />
        <Show when={chosen() === "allow" && rules().length === 0}><p class="dim">Without destinations it reaches nothing.</p></Show>
      </Show>
      <p class="dim"><a href="/docs/egress">How names and addresses are judged</a></p>
    </SaveForm>
  );
}
