//! Machine-readable codes of errors (docs/api/errors.md#codes).

macro_rules! error_codes {
    ($($(#[$doc:meta])* $code:ident = $text:literal,)*) => {
        /// Code of an error, for programs. Clients compare the text, so the text of a code never changes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[$doc])* $code,)*
        }

        impl ErrorCode {
            /// Every code, in the order of docs/api/errors.md.
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$code),*];

            /// Returns the text in the API, in the audit log and in the agent's records.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$code => $text,)*
                }
            }

            /// Returns the code with this text; `None` for a text that no code has.
            pub fn parse(text: &str) -> Option<Self> {
                match text {
                    $($text => Some(Self::$code),)*
                    _ => None,
                }
            }
        }
    };
}

error_codes! {
    // General codes.

    /// The request is malformed, or a name, a path or a value is invalid.
    InvalidRequest = "INVALID_REQUEST",
    /// The request has no valid credential.
    Unauthenticated = "UNAUTHENTICATED",
    /// A trial has ended, or a payment has lapsed.
    PaymentRequired = "PAYMENT_REQUIRED",
    /// The caller may not use the object.
    AccessDenied = "ACCESS_DENIED",
    /// The object does not exist.
    NotFound = "NOT_FOUND",
    /// The state of the object does not permit the operation.
    Conflict = "CONFLICT",
    /// The caller sends too many requests.
    RateLimited = "RATE_LIMITED",
    /// A clone failed unexpectedly.
    CloneFailed = "CLONE_FAILED",
    /// A fork failed unexpectedly.
    ForkFailed = "FORK_FAILED",
    /// A snapshot or a rollback failed unexpectedly.
    SnapshotFailed = "SNAPSHOT_FAILED",
    /// The service or something that it needs is not available.
    Unavailable = "UNAVAILABLE",
    /// The computer did not answer in time.
    TimedOut = "TIMED_OUT",
    /// The computer's agent answers nothing.
    AgentUnresponsive = "agent_unresponsive",

    // Access.

    /// A key of one workspace is used for another workspace or for the account.
    WorkspaceScopeMismatch = "workspace_scope_mismatch",
    /// A viewer of the workspace tries to change something.
    WorkspaceReadOnly = "workspace_read_only",
    /// The `Host` header does not name the service.
    HostNotAllowed = "host_not_allowed",
    /// A web page of an unknown origin calls the MCP server.
    OriginNotAllowed = "origin_not_allowed",
    /// AI agents may not create accounts here.
    AgentAccountsOff = "agent_accounts_off",
    /// An agent's account needs a valid proof of work.
    ProofOfWork = "proof_of_work",
    /// Too many agents' accounts wait for a claim.
    AgentAccountsFull = "agent_accounts_full",
    /// The agent's account cannot be claimed any more.
    NotClaimable = "not_claimable",

    // Plans and limits.

    /// The account or the client has its maximum number of computers.
    DesktopLimit = "DESKTOP_LIMIT",
    /// The account has its maximum number of computers, and the plan lets it add one.
    VmSlotAddon = "VM_SLOT_ADDON",
    /// The plan gives none of the resource, or an agent's account must be claimed first.
    UpgradeRequired = "UPGRADE_REQUIRED",
    /// The account's plan is not in the configuration any more.
    ChangePlan = "CHANGE_PLAN",
    /// The vCPUs exceed the limit of one computer.
    PerComputerCpuCap = "PER_COMPUTER_CPU_CAP",
    /// The RAM exceeds the limit of one computer.
    PerComputerRamCap = "PER_COMPUTER_RAM_CAP",
    /// The RAM of all computers would exceed the limit of the account.
    RamAddon = "RAM_ADDON",
    /// A disk or a snapshot would exceed the disk quota.
    DiskQuotaExceeded = "DISK_QUOTA_EXCEEDED",
    /// The computer has its maximum number of snapshots.
    SnapshotLimit = "SNAPSHOT_LIMIT",
    /// Workspaces, clients, people, files or bandwidth would exceed the plan.
    PlanLimit = "PLAN_LIMIT",
    /// The account or the client's workspace has its maximum number of API keys.
    KeyLimit = "KEY_LIMIT",
    /// The account has its maximum number of SSH keys.
    SshKeyLimit = "ssh_key_limit",
    /// The account or the workspace has its maximum number of secrets.
    SecretLimit = "secret_limit",
    /// The account has its maximum number of MCP connections, or of saved RTMP connections.
    ConnectionLimit = "CONNECTION_LIMIT",
    /// The account has its maximum number of removed clients with stored usage.
    ClientLimit = "CLIENT_LIMIT",
    /// The plan lets the account add no more computers.
    CapacityCap = "capacity_cap",
    /// The computers use the capacity that the account wants to give back.
    CapacityInUse = "CAPACITY_IN_USE",
    /// The client has used its monthly cap for AI models.
    CreditsExhausted = "credits_exhausted",

    // Computers and lifecycle.

    /// A computer or a workspace has this name already.
    NameTaken = "NAME_TAKEN",
    /// The computer cannot be suspended, because its engine saves no memory.
    SuspendUnsupported = "suspend_unsupported",
    /// A device that the service manages cannot be suspended.
    DeviceLifecycleUnsupported = "DEVICE_LIFECYCLE_UNSUPPORTED",
    /// A computer that is paid by the hour cannot be suspended.
    HourlyUseStop = "HOURLY_USE_STOP",
    /// A reserved or dedicated computer cannot be suspended.
    AllocationManaged = "ALLOCATION_MANAGED",
    /// A suspend comes too soon after a wake from storage.
    Converging = "converging",
    /// The computer is being moved to another host.
    Migrating = "migrating",
    /// The computer is suspended, and the request does not wake it.
    ComputerAsleep = "computer_asleep",
    /// The computer is being suspended, and the request does not wake it.
    SuspendInProgress = "suspend_in_progress",
    /// The wake takes longer than the request waits.
    Resuming = "resuming",
    /// The computer could not be woken.
    WakeFailed = "wake_failed",
    /// The host has no capacity for the computer.
    NoCapacity = "no_capacity",
    /// The host of the computer does not answer. The computer may still run.
    HostUnreachable = "host_unreachable",
    /// A host cannot be gone while its cluster does not count it as offline.
    HostNotOffline = "host_not_offline",
    /// The computer's saved memory is damaged or missing.
    SavedStateUnavailable = "saved_state_unavailable",
    /// The state of the computer or its engine does not permit a clone.
    NotClonable = "NOT_CLONABLE",
    /// The state of the computer or its engine does not permit a fork.
    NotForkable = "NOT_FORKABLE",
    /// The engine saves no memory in snapshots.
    SnapshotUnsupported = "snapshot_unsupported",
    /// The snapshot is damaged or missing.
    SnapshotUnavailable = "snapshot_unavailable",
    /// The snapshot's machine is too large for the limits of the account.
    SnapshotTooLarge = "snapshot_too_large",
    /// The snapshot has no picture of the screen.
    NoPicture = "no_picture",
    /// The state of the computer does not permit a resize.
    NotResizable = "NOT_RESIZABLE",
    /// The host does not offer the isolation.
    IsolationNotOffered = "isolation_not_offered",
    /// The isolation of the computer cannot change.
    IsolationFixed = "isolation_fixed",
    /// The computer must be stopped for the change.
    NotStopped = "not_stopped",

    // SSH.

    /// The account has this SSH key already.
    SshKeyExists = "ssh_key_exists",
    /// The account has no SSH key that opens the computer.
    SshKeyMissing = "ssh_key_missing",
    /// The computer has no SSH server.
    SshNotInstalled = "ssh_not_installed",

    // Ports.

    /// No program listens on the port of the computer.
    PortNotListening = "port_not_listening",
    /// The program on the port broke its connection off or speaks no HTTP.
    PortBroken = "port_broken",

    // Secrets.

    /// No secret of this name can be used here.
    SecretNotFound = "secret_not_found",
    /// A file of the user has the place of the secrets of the computer.
    EnvFileExists = "env_file_exists",

    // People and clients.

    /// The invited person belongs to the workspace already.
    AlreadyMember = "ALREADY_MEMBER",
    /// An account with this e-mail address exists already.
    EmailTaken = "EMAIL_TAKEN",
    /// A client with this `external_id` exists already.
    ExternalIdTaken = "EXTERNAL_ID_TAKEN",
    /// A client that has computers cannot be removed.
    ClientHasComputers = "CLIENT_HAS_COMPUTERS",
    /// The workspace of a client cannot be removed.
    ClientWorkspace = "CLIENT_WORKSPACE",

    // Idempotency.

    /// The first request with this `Idempotency-Key` still executes.
    IdempotencyInProgress = "idempotency_in_progress",
    /// The service does not know whether the request had an effect.
    OutcomeUnknown = "outcome_unknown",
    /// The request was executed before, and its answer is not stored.
    AnswerNotKept = "answer_not_kept",
    /// The `Idempotency-Key` belongs to another request.
    IdempotencyKeyReused = "idempotency_key_reused",

    // Screens and actions.

    /// The screen does not remember the quoted frame.
    UnknownFrame = "unknown_frame",
    /// The screen has painted the target since the quoted frame.
    StaleFrame = "stale_frame",
    /// No useful image fits in `max_bytes`.
    BudgetTooSmall = "budget_too_small",
    /// The element does not exist any more.
    ElementGone = "element_gone",
    /// No part of the element is visible on its screen.
    ElementNotVisible = "element_not_visible",
    /// Another window covers the element.
    ElementCovered = "element_covered",
    /// The element offers no action.
    ElementNoAction = "element_no_action",
    /// The element has no value that can be set.
    ElementNotSettable = "element_not_settable",
    /// The program of the element refused the request.
    ElementRefused = "element_refused",
    /// The computer has no browser to open a URL.
    NoBrowser = "no_browser",

    // Execution.

    /// The maximum number of commands or launched programs runs.
    TooManyCommands = "too_many_commands",
    /// The maximum number of Python sessions exists.
    TooManySessions = "too_many_sessions",
    /// The session executes other calls.
    SessionBusy = "session_busy",
    /// The session ended while the call waited.
    SessionEnded = "session_ended",
    /// The maximum number of background processes runs.
    TooManyProcesses = "too_many_processes",
    /// The maximum number of readers waits for output.
    TooManyFollowers = "too_many_followers",
    /// The standard input of the process is closed.
    StdinClosed = "stdin_closed",
    /// The process does not read its standard input.
    StdinFull = "stdin_full",

    // Files.

    /// The target exists already, and the request does not overwrite it.
    AlreadyExists = "already_exists",
    /// The folder has contents.
    NotEmpty = "not_empty",
    /// The path is a folder where the request needs a file.
    IsAFolder = "is_a_folder",
    /// The path is not a regular file.
    NotAFile = "not_a_file",
    /// The path is not a folder.
    NotAFolder = "not_a_folder",
    /// A folder on the path is a symbolic link.
    PathThroughLink = "path_through_link",
    /// The two paths are on different file systems.
    OtherFileSystem = "other_file_system",
    /// The path is the root or the home folder itself.
    ProtectedPath = "protected_path",
    /// The computer's file system denies access.
    PermissionDenied = "permission_denied",
    /// The folders are nested too deeply.
    TooDeep = "too_deep",
    /// The archive cannot be read.
    BadArchive = "bad_archive",
    /// The archive has a link, or a path that leads out of the target folder.
    UnsafeArchive = "unsafe_archive",
    /// The disk of the computer or of the service is full.
    DiskFull = "disk_full",
    /// The desktop is not a plain folder.
    DesktopNotAFolder = "desktop_not_a_folder",
    /// The maximum number of file transfers runs.
    TooManyTransfers = "too_many_transfers",
    /// The maximum number of unfinished uploads exists.
    TooManyUploads = "too_many_uploads",
    /// `Upload-Offset` is not the length of the upload.
    OffsetMismatch = "offset_mismatch",
    /// Another request writes to the upload.
    UploadBusy = "upload_busy",
    /// Another request continues the upload.
    UploadTakenOver = "upload_taken_over",
    /// The upload is older than its lifetime.
    UploadExpired = "upload_expired",
    /// `Tus-Resumable` is not the version that the service speaks.
    TusVersion = "tus_version",
    /// The file ends before the requested range.
    RangeNotSatisfiable = "range_not_satisfiable",
    /// The file is not the version that `If-Match` names.
    FileChanged = "file_changed",

    // Recording and streaming.

    /// The computer has no ffmpeg.
    NoEncoder = "no_encoder",
    /// ffmpeg did not start, or it ended.
    EncoderFailed = "encoder_failed",
    /// The screen is being recorded already.
    AlreadyRecording = "already_recording",
    /// The computer streams already.
    AlreadyStreaming = "already_streaming",
    /// The running recordings fill the quota.
    RecordingsFull = "recordings_full",
    /// The RTMP server did not accept the stream.
    StreamRefused = "stream_refused",
    /// The stream was stopped before the server accepted it.
    StreamStopped = "stream_stopped",
    /// The RTMP server has a private address.
    PrivateAddress = "private_address",

    // MCP.

    /// The account has the most tool calls, waits or subscriptions.
    TooManyCalls = "too_many_calls",

    // Chat.

    /// The body of a chat completion is no valid JSON object.
    InvalidJson = "invalid_json",
    /// There is no model of this name.
    InvalidModel = "invalid_model",
    /// A chat completion names no computer.
    MissingComputerId = "missing_computer_id",
    /// A chat completion has no messages.
    EmptyMessages = "empty_messages",
    /// The first or the last message of a chat completion is not the user's.
    InvalidMessageOrder = "invalid_message_order",
    /// The computer of a chat completion does not exist.
    ComputerNotFound = "computer_not_found",
    /// The conversation is longer than the model accepts.
    ContextOverflow = "context_overflow",
    /// A run works on the screen or continues the thread already.
    RunInProgress = "run_in_progress",
    /// Somebody else holds the screen.
    ControlHeld = "control_held",
    /// No snapshot with memory is from before the action.
    NothingToGoBackTo = "nothing_to_go_back_to",
    /// No call of the thread waits to be confirmed.
    NoPendingCall = "no_pending_call",
    /// The account has its maximum number of runs.
    TooManyRuns = "too_many_runs",
    /// Neither the request nor the service has a key for the back end of the model.
    ModelKeyMissing = "model_key_missing",
    /// The back end of the model refused the key.
    ModelKeyRefused = "model_key_refused",
    /// The back end of the model limits requests.
    ModelRateLimited = "model_rate_limited",
    /// The back end of the model refused the request.
    ModelRefused = "model_refused",
    /// The back end of the model failed or cannot be reached.
    ModelUnavailable = "model_unavailable",

    // Templates.

    /// The definition file of a template is invalid.
    TemplateInvalid = "template_invalid",
    /// Another document is published at the reference of the template.
    TemplateExists = "template_exists",
    /// Computers were launched from the template.
    TemplateInUse = "template_in_use",
    /// The template has no build from which computers can be launched.
    TemplateNotReady = "TEMPLATE_NOT_READY",
    /// The account has as many builds as may wait.
    TooManyBuilds = "too_many_builds",

    // Threads.

    /// The thread has its maximum of messages, or all threads of the computer are in use.
    ThreadFull = "thread_full",
    /// A run of the thread is in progress.
    ThreadRunning = "thread_running",
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_code_has_one_text_in_snake_case() {
        let mut seen = HashSet::new();
        for code in ErrorCode::ALL {
            let text = code.as_str();
            assert!(seen.insert(text), "{text} is the text of two codes");
            assert_eq!(ErrorCode::parse(text), Some(code));
            // Older codes are in capitals. Clients compare them, so they stay.
            let lower = text.to_ascii_lowercase();
            assert!(text == lower || text == text.to_ascii_uppercase(), "{text} mixes cases");
            let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
            assert!(lower.split('_').all(is_word), "{text} is not in snake case");
            assert_eq!(format!("{code:?}").to_ascii_lowercase(), lower.replace('_', ""), "variant of {text}");
        }
        for text in ["", "made_up", "NAME_taken", "name_taken", "disk_full "] {
            assert_eq!(ErrorCode::parse(text), None, "{text:?}");
        }
    }
}
