//! What does a computer's billing allow? How it is paid for, whether it is paid, and what follows for its lifecycle
//! (interface.md "Suspend", errors).

use super::error::{Error, Result};
use super::lifecycle::{self, Command, Decision, Operation, Status};

/// How a computer is paid for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variant {
    /// By its owner's plan.
    #[default]
    Included,
    /// Not yet: until the trial ends.
    Trial,
    /// By the hour that it runs.
    Hourly,
    /// As a part of a reservation.
    Reservation,
    /// By a purchase of its own.
    Dedicated,
}

impl Variant {
    /// Every variant.
    pub const ALL: [Self; 5] =
        [Self::Included, Self::Trial, Self::Hourly, Self::Reservation, Self::Dedicated];

    /// Its word on the wire and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Included => "included",
            Self::Trial => "trial",
            Self::Hourly => "hourly",
            Self::Reservation => "reservation",
            Self::Dedicated => "dedicated",
        }
    }

    /// The variant of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|variant| variant.name() == name)
    }
}

/// Whether what is owed is paid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Payment {
    /// It is.
    #[default]
    Current,
    /// It is not any more.
    Lapsed,
}

impl Payment {
    /// Both states.
    pub const ALL: [Self; 2] = [Self::Current, Self::Lapsed];

    /// Its word on the wire and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Lapsed => "lapsed",
        }
    }

    /// The state of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|payment| payment.name() == name)
    }
}

/// How one computer stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Billing {
    /// How it is paid for.
    pub variant: Variant,
    /// Whether it is paid, by itself and by its owner.
    pub payment: Payment,
    /// When the trial of a trial computer ends, in milliseconds since 1970; `None` is never.
    pub trial_ends_at: Option<i64>,
    /// Whether the service itself manages it, as a device.
    pub device: bool,
}

/// What an operator or a payment service says has changed; `None` leaves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Of an account.
    Account {
        /// Its plan; `Some(None)` is the default one.
        plan: Option<Option<String>>,
        /// Whether it is paid.
        payment: Option<Payment>,
    },
    /// Of a computer.
    Computer {
        /// How it is paid for.
        variant: Option<Variant>,
        /// Whether it is paid.
        payment: Option<Payment>,
        /// When its trial ends; `Some(None)` is never.
        trial_ends_at: Option<Option<i64>>,
        /// Whether the service itself manages it.
        device: Option<bool>,
    },
}

/// Why a computer was ended, in the record that tells its status: its trial was over.
pub const TRIAL_ENDED: &str = "trial_ended";

impl Billing {
    /// Whether it is on a trial whose end is past.
    pub fn is_trial_over(&self, now: i64) -> bool {
        self.variant == Variant::Trial && self.trial_ends_at.is_some_and(|end| end <= now)
    }

    /// How a computer that runs on after the end of its trial is ended, where its engine keeps memory or not; `None`: not at
    /// all. It keeps what it has in memory for whoever chooses a plan: that a client's own suspend is refused by now
    /// (interface.md "Suspend", errors) is no reason to lose it. A device that the service manages is not ours to end.
    pub fn end(&self, memory: bool, now: i64) -> Option<Command> {
        if self.device || !self.is_trial_over(now) {
            return None;
        }
        Some(if memory { Command::EndBySuspend } else { Command::EndByStop })
    }

    /// Is the computer paid for?
    ///
    /// # Errors
    /// `PaymentRequired` after the end of its trial, or when a payment has lapsed.
    pub fn check_paid(&self, now: i64) -> Result<()> {
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

    /// May a change be carried out, as far as the billing goes? What costs less is never refused.
    ///
    /// # Errors
    /// [`Billing::check_paid`]'s for what brings a computer up; for a suspend also `DEVICE_LIFECYCLE_UNSUPPORTED`
    /// (`Invalid`), `HOURLY_USE_STOP` and `ALLOCATION_MANAGED` (`Conflict`), in the order of interface.md's table.
    pub fn permit(&self, operation: Operation, now: i64) -> Result<()> {
        match operation {
            Operation::Stop | Operation::Delete => Ok(()),
            Operation::Start | Operation::Restart | Operation::Resume => self.check_paid(now),
            Operation::Suspend => {
                if self.device {
                    return Err(Error::invalid("A device that the service manages cannot be suspended")
                        .code("DEVICE_LIFECYCLE_UNSUPPORTED"));
                }
                self.check_paid(now)?;
                match self.variant {
                    Variant::Included | Variant::Trial => Ok(()),
                    Variant::Hourly => {
                        Err(Error::conflict("This computer runs by the hour: use Stop instead")
                            .code("HOURLY_USE_STOP"))
                    }
                    Variant::Reservation | Variant::Dedicated => {
                        Err(Error::conflict("Manage this computer's reservation in the account usage area")
                            .code("ALLOCATION_MANAGED"))
                    }
                }
            }
        }
    }

    /// How a computer that nobody uses rests, where its engine keeps memory or not; `None`: not at all, because it is
    /// paid for as a whole or is not ours to put to rest.
    pub fn rest(&self, memory: bool, now: i64) -> Option<Command> {
        if self.device || matches!(self.variant, Variant::Reservation | Variant::Dedicated) {
            return None;
        }
        let suspends = memory && self.permit(Operation::Suspend, now).is_ok();
        Some(if suspends { Command::Suspend } else { Command::Stop })
    }
}

/// The refusal of what an account or a computer whose trial is over asks for.
pub fn trial_ended() -> Error {
    Error::payment_required("The trial has ended. Choose a plan to continue.")
}

/// Decides on a command: the status first, then the billing of what would be carried out. What the service ends by itself
/// is for no client's rules, but for the trial, which may have been prolonged meanwhile.
///
/// # Errors
/// [`lifecycle::decide`]'s and [`Billing::permit`]'s.
pub fn decide(status: Status, billing: &Billing, command: Command, now: i64) -> Result<Decision> {
    let decision = lifecycle::decide(status, command)?;
    if is_end(command) {
        return Ok(if billing.end(true, now).is_some() { decision } else { Decision::AlreadySo });
    }
    if let Decision::Do(operation) = decision {
        billing.permit(operation, now)?;
    }
    Ok(decision)
}

/// Whether a command is the service's own, after the end of a trial.
pub fn is_end(command: Command) -> bool {
    matches!(command, Command::EndBySuspend | Command::EndByStop)
}

#[cfg(test)]
mod tests {
    use super::super::error::Kind;
    use super::*;

    const NOW: i64 = 1_000;

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
        // columns: suspend; what brings it up; what ends it is never refused
        for (billing, suspend, up) in [
            (paid(Variant::Included), None, None),
            (trial(NOW + 1), None, None),
            (Billing { trial_ends_at: None, ..paid(Variant::Trial) }, None, None),
            (trial(NOW), unpaid, unpaid),
            (trial(NOW - 1), unpaid, unpaid),
            // The end of a trial is nothing to what is no trial any more.
            (Billing { variant: Variant::Included, ..trial(NOW - 1) }, None, None),
            (paid(Variant::Hourly), refused(Kind::Conflict, "HOURLY_USE_STOP"), None),
            (paid(Variant::Reservation), refused(Kind::Conflict, "ALLOCATION_MANAGED"), None),
            (paid(Variant::Dedicated), refused(Kind::Conflict, "ALLOCATION_MANAGED"), None),
            (lapsed(Variant::Included), unpaid, unpaid),
            (lapsed(Variant::Hourly), unpaid, unpaid),
            (lapsed(Variant::Dedicated), unpaid, unpaid),
            (device, refused(Kind::Invalid, "DEVICE_LIFECYCLE_UNSUPPORTED"), unpaid),
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
    fn the_status_is_asked_before_the_billing() {
        let hourly = paid(Variant::Hourly);
        let code = |status| decide(status, &hourly, Command::Suspend, NOW).err().and_then(|error| error.code);
        assert_eq!(code(Status::Running), Some("HOURLY_USE_STOP"));
        assert_eq!(code(Status::Stopped), None, "it does not run");
        assert!(decide(Status::Suspended, &hourly, Command::Suspend, NOW).is_ok(), "it is so already");
        let lapsed = Billing { payment: Payment::Lapsed, ..hourly };
        assert!(decide(Status::Running, &lapsed, Command::Act, NOW).is_ok(), "what runs may be used");
        assert!(decide(Status::Suspended, &lapsed, Command::Act, NOW).is_err(), "and is not woken");
    }

    #[test]
    fn what_nobody_uses_rests_as_its_billing_allows() {
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
            assert_eq!(billing.rest(memory, NOW), command, "{billing:?}");
        }
    }

    #[test]
    fn what_runs_on_after_its_trial_is_ended() {
        let trial = |end| Billing { trial_ends_at: Some(end), ..paid(Variant::Trial) };
        for (billing, command) in [
            (trial(NOW), Some(Command::EndBySuspend)),
            (trial(NOW + 1), None),
            (Billing { trial_ends_at: None, ..paid(Variant::Trial) }, None),
            (Billing { device: true, ..trial(NOW) }, None),
            (Billing { variant: Variant::Included, ..trial(NOW) }, None),
            (Billing { variant: Variant::Hourly, ..trial(NOW) }, None),
            (Billing { payment: Payment::Lapsed, ..trial(NOW) }, Some(Command::EndBySuspend)),
        ] {
            assert_eq!(billing.end(true, NOW), command, "{billing:?}");
            assert_eq!(billing.end(false, NOW), command.map(|_| Command::EndByStop), "{billing:?}");
            // In the runner's turn it is asked again.
            for (command, operation) in
                [(Command::EndBySuspend, Operation::Suspend), (Command::EndByStop, Operation::Stop)]
            {
                let over = billing.end(true, NOW).is_some();
                let expected = if over { Decision::Do(operation) } else { Decision::AlreadySo };
                assert_eq!(decide(Status::Running, &billing, command, NOW).unwrap(), expected, "{billing:?}");
            }
        }
    }

    #[test]
    fn names_go_there_and_back() {
        for variant in Variant::ALL {
            assert_eq!(Variant::named(variant.name()), Some(variant));
        }
        for payment in Payment::ALL {
            assert_eq!(Payment::named(payment.name()), Some(payment));
        }
        assert!(Variant::named("free").is_none() && Payment::named("").is_none());
    }
}
