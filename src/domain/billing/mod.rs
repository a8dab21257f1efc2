//! Billing of computers and its effect on their lifecycle (docs/lifecycle.md).

pub mod plan;
pub mod quota;
pub mod usage;

use crate::computer::lifecycle::{self, Command, Decision, Operation, Status};
use crate::computer::status_reason::StatusReason;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use hotdesk_base::time::UnixMillis;

/// How a computer is paid for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variant {
    /// Included in the plan of its owner.
    #[default]
    Included,
    /// Free until the end of the trial.
    Trial,
    /// Per hour of running time.
    Hourly,
    /// Part of a reservation.
    Reservation,
    /// Paid by a purchase of its own.
    Dedicated,
}

impl Variant {
    /// Every variant.
    pub const ALL: [Self; 5] =
        [Self::Included, Self::Trial, Self::Hourly, Self::Reservation, Self::Dedicated];

    /// Returns the name in the API and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Included => "included",
            Self::Trial => "trial",
            Self::Hourly => "hourly",
            Self::Reservation => "reservation",
            Self::Dedicated => "dedicated",
        }
    }

    /// Returns the variant with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|variant| variant.name() == name)
    }
}

/// State of a payment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Payment {
    /// Paid.
    #[default]
    Current,
    /// Overdue.
    Lapsed,
}

impl Payment {
    /// Both states.
    pub const ALL: [Self; 2] = [Self::Current, Self::Lapsed];

    /// Returns the name in the API and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Lapsed => "lapsed",
        }
    }

    /// Returns the state with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|payment| payment.name() == name)
    }
}

/// Billing of one computer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Billing {
    /// How it is paid for.
    pub variant: Variant,
    /// State of the payment: lapsed when that of the computer or of its owner is.
    pub payment: Payment,
    /// End of the trial of a trial computer; `None` means that it does not end.
    pub trial_ends_at: Option<UnixMillis>,
    /// Whether the service manages the computer, as a device.
    pub device: bool,
}

/// Change of billing, from `hotdesk admin` or an event of a payment service. `None` leaves a field unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BillingChange {
    /// Change of an account.
    Account {
        /// Plan; `Some(None)` means the default plan.
        plan: Option<Option<String>>,
        /// State of the payment.
        payment: Option<Payment>,
    },
    /// Change of a computer.
    Computer {
        /// How it is paid for.
        variant: Option<Variant>,
        /// State of the payment.
        payment: Option<Payment>,
        /// End of its trial; `Some(None)` means that it does not end.
        trial_ends_at: Option<Option<UnixMillis>>,
        /// Whether the service manages the computer, as a device.
        device: Option<bool>,
    },
}

impl Billing {
    /// Whether the trial has ended at `now`.
    pub fn is_trial_over(&self, now: UnixMillis) -> bool {
        self.variant == Variant::Trial && self.trial_ends_at.is_some_and(|end| end <= now)
    }

    /// Returns the command that ends a computer whose trial is over at `now`; `None` when there is nothing to
    /// do.
    ///
    /// It suspends where the engine can save memory (`memory`), so that nothing is lost if the owner chooses
    /// a plan. Clients cannot suspend such a computer themselves. Devices are never ended.
    pub fn trial_end_command(&self, memory: bool, now: UnixMillis) -> Option<Command> {
        if self.device || !self.is_trial_over(now) {
            return None;
        }
        Some(if memory { Command::EndBySuspend } else { Command::EndByStop })
    }

    /// Checks at `now` that the computer is paid for.
    ///
    /// # Errors
    /// `PaymentRequired` after the end of its trial, or when a payment has lapsed.
    pub fn check_paid(&self, now: UnixMillis) -> Result<()> {
        if self.is_trial_over(now) {
            return Err(trial_ended());
        }
        match self.payment {
            Payment::Current => Ok(()),
            Payment::Lapsed => Err(Error::payment_required(
                "Payment has lapsed: manage this computer's payment in the account usage area",
            )),
        }
    }

    /// Checks whether billing permits an operation at `now`. Operations that reduce cost are always
    /// permitted.
    ///
    /// # Errors
    /// Those of [`Billing::check_paid`] for start, restart and resume. For a suspend also
    /// `DEVICE_LIFECYCLE_UNSUPPORTED` (`Invalid`), `HOURLY_USE_STOP` and `ALLOCATION_MANAGED` (`Conflict`),
    /// in the order of docs/lifecycle.md.
    pub fn permit(&self, operation: Operation, now: UnixMillis) -> Result<()> {
        match operation {
            Operation::Stop | Operation::Delete => Ok(()),
            Operation::Start | Operation::Restart | Operation::Resume => self.check_paid(now),
            Operation::Suspend => {
                if self.device {
                    return Err(Error::invalid("A device that the service manages cannot be suspended")
                        .code(ErrorCode::DeviceLifecycleUnsupported));
                }
                self.check_paid(now)?;
                match self.variant {
                    Variant::Included | Variant::Trial => Ok(()),
                    Variant::Hourly => {
                        Err(Error::conflict("This computer runs by the hour: use Stop instead")
                            .code(ErrorCode::HourlyUseStop))
                    }
                    Variant::Reservation | Variant::Dedicated => {
                        Err(Error::conflict("Manage this computer's reservation in the account usage area")
                            .code(ErrorCode::AllocationManaged))
                    }
                }
            }
        }
    }

    /// Returns the command for a computer whose idle timeout has expired: suspend where the engine can save
    /// memory and billing permits it, else stop. `None` for reserved and dedicated computers, which are paid
    /// as a whole, and for devices.
    pub fn idle_command(&self, memory: bool, now: UnixMillis) -> Option<Command> {
        if self.device || matches!(self.variant, Variant::Reservation | Variant::Dedicated) {
            return None;
        }
        let suspends = memory && self.permit(Operation::Suspend, now).is_ok();
        Some(if suspends { Command::Suspend } else { Command::Stop })
    }
}

/// Returns the error for an account or a computer whose trial has ended.
pub fn trial_ended() -> Error {
    Error::payment_required("The trial has ended. Choose a plan to continue.")
}

/// Decides on a command at `now`: by the status and its reason first, then by the billing. For the service's own
/// commands at the end of a trial it only checks that the trial has not been extended.
///
/// # Errors
/// Those of [`lifecycle::decide`] and [`Billing::permit`].
pub fn decide(
    status: Status,
    reason: Option<StatusReason>,
    billing: &Billing,
    command: Command,
    now: UnixMillis,
) -> Result<Decision> {
    let decision = lifecycle::decide(status, reason, command)?;
    if is_trial_end(command) {
        return Ok(if billing.trial_end_command(true, now).is_some() {
            decision
        } else {
            Decision::AlreadySo
        });
    }
    if let Decision::Do(operation) = decision {
        billing.permit(operation, now)?;
    }
    Ok(decision)
}

/// Whether the service sends this command at the end of a trial.
pub fn is_trial_end(command: Command) -> bool {
    matches!(command, Command::EndBySuspend | Command::EndByStop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    const NOW: UnixMillis = UnixMillis::new(1_000);
    const AFTER: UnixMillis = UnixMillis::new(1_001);
    const BEFORE: UnixMillis = UnixMillis::new(999);

    fn paid(variant: Variant) -> Billing {
        Billing { variant, ..Billing::default() }
    }

    #[test]
    fn every_row_of_the_suspend_table_follows_from_state() {
        let lapsed = |variant| Billing { payment: Payment::Lapsed, ..paid(variant) };
        let trial = |end| Billing { trial_ends_at: Some(end), ..paid(Variant::Trial) };
        let device = Billing { device: true, ..lapsed(Variant::Hourly) };
        let unpaid = Some((Kind::PaymentRequired, None));
        let refused = |kind, code| Some((kind, Some(code)));
        // columns: suspend; start, restart and resume. Stop and delete are never refused.
        for (billing, suspend, up) in [
            (paid(Variant::Included), None, None),
            (trial(AFTER), None, None),
            (Billing { trial_ends_at: None, ..paid(Variant::Trial) }, None, None),
            (trial(NOW), unpaid, unpaid),
            (trial(BEFORE), unpaid, unpaid),
            // The end of a trial has no effect on another variant.
            (Billing { variant: Variant::Included, ..trial(BEFORE) }, None, None),
            (paid(Variant::Hourly), refused(Kind::Conflict, ErrorCode::HourlyUseStop), None),
            (paid(Variant::Reservation), refused(Kind::Conflict, ErrorCode::AllocationManaged), None),
            (paid(Variant::Dedicated), refused(Kind::Conflict, ErrorCode::AllocationManaged), None),
            (lapsed(Variant::Included), unpaid, unpaid),
            (lapsed(Variant::Hourly), unpaid, unpaid),
            (lapsed(Variant::Dedicated), unpaid, unpaid),
            (device, refused(Kind::Invalid, ErrorCode::DeviceLifecycleUnsupported), unpaid),
        ] {
            let got = |operation| billing.permit(operation, NOW).err().map(|error| (error.kind, error.code));
            assert_eq!(got(Operation::Suspend), suspend, "{billing:?}");
            for operation in [Operation::Start, Operation::Restart, Operation::Resume] {
                assert_eq!(got(operation), up, "{operation:?} of {billing:?}");
            }
            for operation in [Operation::Stop, Operation::Delete] {
                assert_eq!(got(operation), None, "{operation:?} of {billing:?}");
            }
        }
        assert!(trial(NOW).check_paid(NOW).unwrap_err().message.ends_with("Choose a plan to continue."));
        let text = lapsed(Variant::Included).check_paid(NOW).unwrap_err().message;
        assert!(text.contains("manage this computer's payment in the account usage area"), "{text}");
    }

    #[test]
    fn the_status_is_checked_before_the_billing() {
        let hourly = paid(Variant::Hourly);
        let code =
            |status| decide(status, None, &hourly, Command::Suspend, NOW).err().and_then(|error| error.code);
        assert_eq!(code(Status::Running), Some(ErrorCode::HourlyUseStop));
        assert_eq!(code(Status::Stopped), None, "it does not run");
        assert!(decide(Status::Suspended, None, &hourly, Command::Suspend, NOW).is_ok(), "it is so already");
        let lapsed = Billing { payment: Payment::Lapsed, ..hourly };
        let act = |status, reason| decide(status, reason, &lapsed, Command::Act, NOW);
        assert!(act(Status::Running, None).is_ok(), "what runs may be used");
        for (status, reason) in [(Status::Suspended, None), (Status::Stopped, Some(StatusReason::AutoStop))] {
            assert_eq!(act(status, reason).unwrap_err().kind, Kind::PaymentRequired, "and is not woken");
        }
    }

    #[test]
    fn an_idle_computer_is_suspended_or_stopped_as_its_billing_permits() {
        let lapsed = Billing { payment: Payment::Lapsed, ..Billing::default() };
        for (billing, memory, command) in [
            (paid(Variant::Included), true, Some(Command::Suspend)),
            (paid(Variant::Included), false, Some(Command::Stop)),
            (paid(Variant::Trial), true, Some(Command::Suspend)),
            (paid(Variant::Hourly), true, Some(Command::Stop)),
            (lapsed, true, Some(Command::Stop)),
            (paid(Variant::Reservation), true, None),
            (paid(Variant::Dedicated), true, None),
            (Billing { device: true, ..Billing::default() }, true, None),
        ] {
            assert_eq!(billing.idle_command(memory, NOW), command, "{billing:?}");
        }
    }

    #[test]
    fn a_computer_that_runs_after_its_trial_is_ended() {
        let trial = |end| Billing { trial_ends_at: Some(end), ..paid(Variant::Trial) };
        for (billing, command) in [
            (trial(NOW), Some(Command::EndBySuspend)),
            (trial(AFTER), None),
            (Billing { trial_ends_at: None, ..paid(Variant::Trial) }, None),
            (Billing { device: true, ..trial(NOW) }, None),
            (Billing { variant: Variant::Included, ..trial(NOW) }, None),
            (Billing { variant: Variant::Hourly, ..trial(NOW) }, None),
            (Billing { payment: Payment::Lapsed, ..trial(NOW) }, Some(Command::EndBySuspend)),
        ] {
            assert_eq!(billing.trial_end_command(true, NOW), command, "{billing:?}");
            assert_eq!(
                billing.trial_end_command(false, NOW),
                command.map(|_| Command::EndByStop),
                "{billing:?}"
            );
            // The runner decides again when it carries out the command.
            for (command, operation) in
                [(Command::EndBySuspend, Operation::Suspend), (Command::EndByStop, Operation::Stop)]
            {
                let over = billing.trial_end_command(true, NOW).is_some();
                let expected = if over { Decision::Do(operation) } else { Decision::AlreadySo };
                assert_eq!(
                    decide(Status::Running, None, &billing, command, NOW).unwrap(),
                    expected,
                    "{billing:?}"
                );
            }
        }
    }

    #[test]
    fn names_go_there_and_back() {
        for variant in Variant::ALL {
            assert_eq!(Variant::from_name(variant.name()), Some(variant));
        }
        for payment in Payment::ALL {
            assert_eq!(Payment::from_name(payment.name()), Some(payment));
        }
        assert!(Variant::from_name("free").is_none() && Payment::from_name("").is_none());
    }
}
