// People of a workspace: members with their roles, and invitations.

import { createResource, createSignal, For, Show } from "solid-js";
import { answerOf, api, type Schemas } from "../../api/service";
import { person } from "../../api/session";
import { attempt, Button, confirm, Empty, Field, Loaded, notify, Select, Since, Table, valueOf } from "../../ui";
import { createChoice, createSteps, createWorkspaces, FormDialog, ShownOnce, WorkspaceSelect } from "./parts";

type Role = Schemas["GivenRole"];

const ROLES: readonly { value: Role; label: string }[] = [
  { value: "viewer", label: "Viewer: watches and reads" },
  { value: "member", label: "Member: uses computers and files" },
  { value: "admin", label: "Admin: also manages people, keys and secrets" },
];

/** The tab. */
export default function Tab() {
  const [workspaces, { refetch }] = createWorkspaces();
  return (
    <div class="settings-tab">
      <Loaded of={workspaces} what="the workspaces" retry={() => void refetch()}>
        {(workspaces) => (
          <Show when={workspaces().length > 0} fallback={<Empty title="No workspace"><p>Create one in the tab "Workspaces".</p></Empty>}>
            <Scoped workspaces={workspaces()} onChange={() => void refetch()} />
          </Show>
        )}
      </Loaded>
    </div>
  );
}

function Scoped(props: { workspaces: readonly Schemas["Workspace"][]; onChange: () => void }) {
  const choice = createChoice(() => props.workspaces, false);
  const workspace = () => props.workspaces.find((it) => it.id === choice.id());
  return (
    <>
      <WorkspaceSelect label="Workspace" workspaces={props.workspaces} value={choice.id()} onChange={choice.choose} />
      {/* By its id: the record is another one after each change. */}
      <Show when={workspace()?.id} keyed>
        <Show when={workspace()}>{(workspace) => <People workspace={workspace()} onLeft={props.onChange} />}</Show>
      </Show>
    </>
  );
}

function People(props: { workspace: Schemas["Workspace"]; onLeft: () => void }) {
  const path = () => ({ id: props.workspace.id });
  const [people, { refetch }] = createResource(() => answerOf(api.GET("/workspaces/{id}/members", { params: { path: path() } })));
  const [me] = createResource(person);
  const [isInviting, setInviting] = createSignal(false);
  const [link, setLink] = createSignal<{ email: string; url: string }>();
  const mayManage = () => props.workspace.role === "owner" || props.workspace.role === "admin";
  const isMe = (id: string) => valueOf(me)?.id === id;

  const change = (member: Schemas["Member"], role: Role) => attempt("The role was not changed", async () => {
    await answerOf(api.PATCH("/workspaces/{id}/members", { params: { path: path() }, body: { memberId: member.id, role } }));
    notify({ text: `${member.email} is now ${role}`, tone: "good" });
  }).finally(() => void refetch());
  const remove = async (member: Schemas["Member"]) => {
    const leaves = isMe(member.id);
    const isSure = await confirm({
      title: leaves ? `Leave "${props.workspace.name}"?` : `Remove ${member.email}?`,
      text: `${leaves ? "You lose" : "This person loses"} access at once; keys and connections to the workspace are deleted, and its computers get new passwords.`,
      action: leaves ? "Leave workspace" : "Remove member",
    });
    if (!isSure) return;
    await attempt(leaves ? "You have not left" : "The member was not removed", async () => {
      await answerOf(api.DELETE("/workspaces/{id}/members", { params: { path: path() }, body: { memberId: member.id } }));
      notify({ text: leaves ? `You have left "${props.workspace.name}"` : `${member.email} is removed`, tone: "good" });
      if (leaves) props.onLeft();
      else await refetch();
    });
  };
  const revoke = async (email: string) => {
    const isSure = await confirm({ title: `Revoke the invitation of ${email}?`, text: "Its link stops working.", action: "Revoke invitation" });
    if (!isSure) return;
    await attempt("The invitation was not revoked", async () => {
      await answerOf(api.DELETE("/workspaces/{id}/invite", { params: { path: path() }, body: { email } }));
      if (link()?.email === email) setLink(undefined);
      await refetch();
    });
  };

  return (
    <>
      <section aria-labelledby="members-name">
        <div class="bar">
          <h2 id="members-name">Members</h2><span class="grow" />
          <Show when={mayManage()} fallback={<span class="dim">You are {props.workspace.role} here. Admins and the owner manage people.</span>}>
            <Button look="primary" onClick={() => setInviting(true)}>Invite</Button>
          </Show>
        </div>
        <ShownOnce title={`Invitation of ${link()?.email ?? ""}`} text={link()?.url} label="Copy the link" onClose={() => setLink(undefined)}>
          <p>Send the link to this person. It works once, within 7 days, for this address.</p>
        </ShownOnce>
        <Loaded of={people} what="the members" retry={() => void refetch()}>
          {(people) => (
            <>
              <Members members={people().members} mayManage={mayManage()} isMe={isMe} onRole={change} onRemove={remove} />
              <Show when={people().invites.length > 0}>
                <Invitations invites={people().invites} onRevoke={revoke} />
              </Show>
            </>
          )}
        </Loaded>
      </section>
      <Invite open={isInviting()} workspace={props.workspace.id} onClose={() => setInviting(false)}
        onInvited={(invited) => { setLink({ email: invited.invite.email, url: invited.url }); void refetch(); }} />
    </>
  );
}

function Members(props: {
  members: readonly Schemas["Member"][];
  mayManage: boolean;
  isMe: (id: string) => boolean;
  onRole: (member: Schemas["Member"], role: Role) => unknown;
  onRemove: (member: Schemas["Member"]) => unknown;
}) {
  const { shown, More } = createSteps(() => props.members);
  return (
    <>
      <Table columns={["Person", "Role", "Since", "Actions"]} rows={shown()}>
        {(member) => (
          <tr>
            <td>
              {member.full_name || member.email}{props.isMe(member.id) ? " (you)" : ""}
              <Show when={member.full_name}><br /><small>{member.email}</small></Show>
              <Show when={!member.email_verified}><br /><small>address not verified</small></Show>
            </td>
            <td>
              <Show when={props.mayManage && member.role !== "owner" && !props.isMe(member.id)} fallback={member.role}>
                <select aria-label={`Role of ${member.email}`}
                  onChange={(event) => props.onRole(member, event.currentTarget.value as Role)}>
                  <For each={ROLES}>{(role) => <option value={role.value} selected={role.value === member.role}>{role.value}</option>}</For>
                </select>
              </Show>
            </td>
            <td><Since time={member.created_at} /></td>
            <td>
              <Show when={member.role !== "owner" && (props.mayManage || props.isMe(member.id))}>
                <Button look="danger" aria-label={props.isMe(member.id) ? "Leave the workspace" : `Remove ${member.email}`}
                  onClick={() => props.onRemove(member)}>{props.isMe(member.id) ? "Leave" : "Remove"}</Button>
              </Show>
            </td>
          </tr>
        )}
      </Table>
      <More />
    </>
  );
}

function Invitations(props: { invites: readonly Schemas["Invitation"][]; onRevoke: (email: string) => unknown }) {
  const { shown, More } = createSteps(() => props.invites);
  return (
    <>
      <h2>Invitations</h2>
      <Table columns={["Address", "Role", "Sent", "Valid", "Actions"]} rows={shown()}>
        {(invite) => (
          <tr>
            <td>{invite.email}</td>
            <td>{invite.role}</td>
            <td><Since time={invite.created_at} /></td>
            <td><Show when={!invite.expired} fallback="expired">until <Since time={invite.expires_at} /></Show></td>
            <td>
              <Button look="danger" aria-label={`Revoke the invitation of ${invite.email}`} onClick={() => props.onRevoke(invite.email)}>
                Revoke
              </Button>
            </td>
          </tr>
        )}
      </Table>
      <More />
    </>
  );
}

function Invite(props: { open: boolean; workspace: string; onClose: () => void; onInvited: (invited: Schemas["Invited"]) => void }) {
  const [email, setEmail] = createSignal("");
  const [role, setRole] = createSignal<Role>("member");
  const invite = async () => {
    const invited = await attempt("Nobody was invited", () => answerOf(api.POST("/workspaces/{id}/invite", {
      params: { path: { id: props.workspace } },
      body: { email: email().trim(), permission: role() },
    })));
    if (!invited) return false;
    setEmail("");
    props.onInvited(invited);
    return true;
  };
  return (
    <FormDialog open={props.open} title="Invite a person" action="Invite" disabled={!email().includes("@")}
      onClose={props.onClose} onSubmit={invite}>
      <Field label="E-mail address" type="email" required hint="hotdesk sends no mail: you get a link for the person" value={email()}
        onInput={(event) => setEmail(event.currentTarget.value)} />
      <Select label="Role" value={role()} options={ROLES} onChange={(value) => setRole(value as Role)} />
    </FormDialog>
  );
}
