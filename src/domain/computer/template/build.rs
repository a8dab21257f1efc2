//! Steps of a build, and their division into layers.

use std::time::Duration;

use hotdesk_base::hex::hex;
use hotdesk_base::ids::AccountId;
use hotdesk_base::time::UnixMillis;
use sha2::{Digest, Sha256};

use super::bounds::{MAX_RUN_LAYERS, MAX_TEMPLATE_LAYERS, SCRIPT_OF_BUILD_VERSION};

/// The file in a computer with the environment variables of its template: `NAME=VALUE`, each with a null byte after it, as in
/// `/proc/PID/environ`.
pub const ENVIRONMENT_FILE: &str = "/etc/hotdesk/environment";

/// The file in a computer with the services, desktop programs and hooks of its template, as JSON.
pub const PROGRAMS_FILE: &str = "/etc/hotdesk/programs.json";

/// Status of the last build of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildStatus {
    /// It waits or runs.
    Building,
    /// Computers can be launched.
    Ready,
    /// It failed or was cancelled.
    Failed,
}

impl BuildStatus {
    const ALL: [Self; 3] = [Self::Building, Self::Ready, Self::Failed];

    /// Returns the name in the API and in the store.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Building => "building",
            Self::Ready => "ready",
            Self::Failed => "failed",
        }
    }

    /// Parses a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

/// Kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// An imported image, which the script names.
    Base,
    /// The desktop above an imported image.
    Desktop,
    /// Packages of Debian.
    Apt,
    /// Packages of Python.
    Pip,
    /// Packages of Node.js.
    Npm,
    /// The environment, or files.
    Files,
    /// The script `install` of an application.
    Install,
    /// A script of `build.run`.
    Run,
    /// The list of services, desktop programs and hooks.
    Programs,
}

impl StepKind {
    /// Whether its computer must show its desktop first. Scripts of an author may use it, and files may be of
    /// its programs. The installation of the desktop has none, and the list of programs is only written.
    pub const fn needs_desktop(self) -> bool {
        match self {
            Self::Base | Self::Desktop | Self::Programs => false,
            Self::Apt | Self::Pip | Self::Npm | Self::Files | Self::Install | Self::Run => true,
        }
    }
}

/// A step of a build: a script that root runs with `bash -e`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildStep {
    /// Its kind.
    pub kind: StepKind,
    /// The field of the definition file, such as `build.run[0]`.
    pub field: String,
    /// The script.
    pub script: String,
}

/// A layer to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedLayer {
    /// Digest of the image, the environment and all steps up to this layer, in hexadecimal.
    pub inputs: String,
    /// The steps that run in a computer with the layers before.
    pub steps: Vec<BuildStep>,
}

/// The layers of an imported image: its files, and the desktop above them. They depend on nothing else of a template, so
/// templates of all accounts share them.
///
/// `image` and `id` identify the guest image and the imported one, `name` is the name of the latter.
pub fn plan_base(image: &str, id: &str, name: String, desktop: String) -> Vec<PlannedLayer> {
    let step = |kind, field: &str, script| BuildStep { kind, field: field.to_owned(), script };
    let files = step(StepKind::Base, "base", name);
    let mut layers = vec![PlannedLayer {
        inputs: digest(&[SCRIPT_OF_BUILD_VERSION, "base", image, id]),
        steps: vec![files],
    }];
    let inputs = digest(&[&layers[0].inputs, &desktop]);
    layers.push(PlannedLayer { inputs, steps: vec![step(StepKind::Desktop, "base: desktop", desktop)] });
    layers
}

/// Divides the steps of a build into layers. Each step becomes one, so that a change repeats only the steps from there on;
/// the scripts of `build.run` share layers evenly when there are more than [`MAX_RUN_LAYERS`], or more than fit beside the
/// others and the `below` ones. The applications share one.
///
/// `base` identifies what is below the layers, `environment` the variables of all steps.
pub fn plan_layers(base: &str, below: usize, environment: &str, steps: Vec<BuildStep>) -> Vec<PlannedLayer> {
    let runs = steps.iter().filter(|step| step.kind == StepKind::Run).count();
    let installs = usize::from(steps.iter().any(|step| step.kind == StepKind::Install));
    let single = |step: &&BuildStep| !matches!(step.kind, StepKind::Run | StepKind::Install);
    let others = below + installs + steps.iter().filter(single).count();
    let run_layers = MAX_TEMPLATE_LAYERS.saturating_sub(others).clamp(1, MAX_RUN_LAYERS);
    let most_runs = runs.div_ceil(run_layers).max(1);
    let mut inputs = digest(&[SCRIPT_OF_BUILD_VERSION, base, environment]);
    let mut layers: Vec<PlannedLayer> = Vec::new();
    for step in steps {
        inputs = digest(&[&inputs, &step.script]);
        let shared = layers.last_mut().filter(|layer| match step.kind {
            StepKind::Run => layer.has_only(StepKind::Run) && layer.steps.len() < most_runs,
            StepKind::Install => layer.has_only(StepKind::Install),
            StepKind::Base
            | StepKind::Desktop
            | StepKind::Apt
            | StepKind::Pip
            | StepKind::Npm
            | StepKind::Files
            | StepKind::Programs => false,
        });
        match shared {
            Some(layer) => {
                layer.inputs.clone_from(&inputs);
                layer.steps.push(step);
            }
            None => layers.push(PlannedLayer { inputs: inputs.clone(), steps: vec![step] }),
        }
    }
    layers
}

impl PlannedLayer {
    /// The fields of its steps, for the build's log.
    pub fn title(&self) -> String {
        let fields: Vec<&str> = self.steps.iter().map(|step| step.field.as_str()).collect();
        fields.join(", ")
    }

    /// Whether it belongs to an imported image, and not to a template.
    pub fn is_of_base(&self) -> bool {
        self.steps.iter().all(|step| matches!(step.kind, StepKind::Base | StepKind::Desktop))
    }

    /// Whether a step needs the desktop of its computer ([`StepKind::needs_desktop`]).
    pub fn needs_desktop(&self) -> bool {
        self.steps.iter().any(|step| step.kind.needs_desktop())
    }

    /// The kind of its first step.
    pub fn kind(&self) -> Option<StepKind> {
        self.steps.first().map(|step| step.kind)
    }

    /// The account that has the layer: that of the template, or the operator's for one of an imported image.
    pub fn owner(&self, account: AccountId, operator: AccountId) -> AccountId {
        if self.is_of_base() { operator } else { account }
    }

    fn has_only(&self, kind: StepKind) -> bool {
        self.steps.iter().all(|step| step.kind == kind)
    }
}

/// Time for which a layer stays that no build and no computer has: a changed template is often changed back.
pub const KEEP_UNUSED_LAYER: Duration = Duration::from_secs(24 * 3600);

/// Facts on which the retention of a layer depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetainedLayer {
    /// Whether it is complete.
    pub ready: bool,
    /// Whether a build or a computer has it.
    pub used: bool,
    /// When a build used it last.
    pub used_at: UnixMillis,
}

impl RetainedLayer {
    /// Whether it can be removed now. One that is not complete belongs to a build that runs.
    pub fn is_expired(&self, now: UnixMillis) -> bool {
        self.ready && !self.used && now.since(self.used_at).is_some_and(|age| age >= KEEP_UNUSED_LAYER)
    }
}

/// Digest of texts, each with its length, so that no two lists have one.
fn digest(texts: &[&str]) -> String {
    let mut sum = Sha256::new();
    for text in texts {
        sum.update((text.len() as u64).to_be_bytes());
        sum.update(text);
    }
    hex(&sum.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::computer::template::bounds::MAX_STEPS;

    fn step(kind: StepKind, script: &str) -> BuildStep {
        BuildStep { kind, field: script.to_owned(), script: script.to_owned() }
    }

    fn runs(count: usize) -> Vec<BuildStep> {
        (0..count).map(|number| step(StepKind::Run, &number.to_string())).collect()
    }

    fn inputs(base: &str, environment: &str, steps: Vec<BuildStep>) -> Vec<String> {
        plan_layers(base, 0, environment, steps).into_iter().map(|layer| layer.inputs).collect()
    }

    #[test]
    fn steps_share_layers_only_where_there_are_many() {
        let mut steps = vec![step(StepKind::Apt, "a"), step(StepKind::Pip, "p"), step(StepKind::Npm, "n")];
        steps.extend([
            step(StepKind::Files, "f"),
            step(StepKind::Install, "i"),
            step(StepKind::Install, "j"),
        ]);
        let sizes = |steps: &[BuildStep]| -> Vec<usize> {
            plan_layers("", 0, "", steps.to_vec()).iter().map(|layer| layer.steps.len()).collect()
        };
        assert_eq!(sizes(&steps), [1, 1, 1, 1, 2]);
        for (count, expected) in
            [(0, vec![]), (1, vec![1]), (10, vec![1; 10]), (11, vec![2, 2, 2, 2, 2, 1]), (21, vec![3; 7])]
        {
            assert_eq!(sizes(&runs(count)), expected, "{count}");
        }
        steps.extend(runs(MAX_STEPS));
        let layers = plan_layers("", 0, "", steps.clone());
        assert_eq!(layers.len(), 15);
        // With an environment and programs, and above an imported image, there are as many as a computer may have.
        for below in [0, 2] {
            let all = [vec![step(StepKind::Files, "e")], steps.clone(), vec![step(StepKind::Programs, "s")]]
                .concat();
            assert!(below + plan_layers("", below, "", all).len() <= MAX_TEMPLATE_LAYERS, "{below}");
        }
        assert_eq!(layers.into_iter().flat_map(|layer| layer.steps).collect::<Vec<_>>(), steps);
    }

    #[test]
    fn a_change_changes_the_layers_from_there_on() {
        let before = inputs("image", "env", runs(4));
        let changed = |at: usize| {
            let mut steps = runs(4);
            steps[at].script.push('x');
            inputs("image", "env", steps)
        };
        for at in 0..4 {
            let after = changed(at);
            let equal: Vec<bool> = before.iter().zip(&after).map(|(a, b)| a == b).collect();
            assert_eq!(equal, (0..4).map(|other| other < at).collect::<Vec<_>>(), "{at}");
        }
        assert_eq!(inputs("image", "env", runs(3)), before[..3]);
        for other in
            [inputs("imag", "env", runs(4)), inputs("image", "", runs(4)), inputs("imagee", "nv", runs(4))]
        {
            assert!(before.iter().zip(&other).all(|(a, b)| a != b));
        }
        assert_ne!(
            inputs("", "", vec![step(StepKind::Run, "ab"), step(StepKind::Run, "c")])[1],
            inputs("", "", vec![step(StepKind::Run, "a"), step(StepKind::Run, "bc")])[1]
        );
    }

    #[test]
    fn the_layers_of_an_imported_image_depend_on_its_content_and_on_the_guest_image() {
        let inputs = |image, id, name: &str, desktop: &str| -> Vec<String> {
            let layers = plan_base(image, id, name.to_owned(), desktop.to_owned());
            assert!(layers.iter().all(PlannedLayer::is_of_base));
            layers.into_iter().map(|layer| layer.inputs).collect()
        };
        let first = inputs("image", "sha256:1", "debian", "install");
        assert_eq!(inputs("image", "sha256:1", "other-name", "install"), first);
        let other = inputs("image", "sha256:1", "debian", "install more");
        assert!(other[0] == first[0] && other[1] != first[1]);
        for other in [
            inputs("image2", "sha256:1", "debian", "install"),
            inputs("image", "sha256:2", "debian", "install"),
        ] {
            assert!(other.iter().zip(&first).all(|(one, another)| one != another));
        }
        let steps = plan_layers("", 0, "", runs(1));
        assert!(!steps[0].is_of_base());
    }

    #[test]
    fn only_layers_of_the_service_s_own_scripts_do_without_a_desktop() {
        for (kinds, expected) in [
            (vec![StepKind::Programs], false),
            (vec![StepKind::Desktop], false),
            (vec![StepKind::Base], false),
            (vec![StepKind::Run], true),
            (vec![StepKind::Install, StepKind::Install], true),
            (vec![StepKind::Files], true),
            (vec![StepKind::Apt], true),
        ] {
            let steps = kinds.iter().map(|kind| step(*kind, "")).collect();
            let layer = PlannedLayer { inputs: String::new(), steps };
            assert_eq!(layer.needs_desktop(), expected, "{kinds:?}");
        }
    }

    #[test]
    fn layers_stay_while_something_needs_them() {
        let used_at = UnixMillis::new(1_000_000);
        let (soon, late) = (used_at.plus(KEEP_UNUSED_LAYER / 2), used_at.plus(KEEP_UNUSED_LAYER));
        for (ready, used, now, expired) in [
            (true, false, late, true),
            (true, false, soon, false),
            (true, true, late, false),
            (false, false, late, false),
        ] {
            let layer = RetainedLayer { ready, used, used_at };
            assert_eq!(layer.is_expired(now), expired, "{layer:?} {now:?}");
        }
    }
}
