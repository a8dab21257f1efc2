//! Clients that may pause while they read the output of processes and services (T13, docs/security.md).
//!
//! Each pause keeps a connection to the computer and its buffers, and a replaced agent has as much output as it likes.

use axum::response::Response;

use hotdesk_base::ids::{AccountId, ComputerId};
use hotdesk_base::keyed_semaphore::KeyedSemaphore;
use hotdesk_http::serve::ClientMayPause;

/// Readers of one computer that may pause: one for each of its processes (docs/api/actions.md#background-processes). Each has
/// about 200 KiB of buffers.
const MAX_PER_COMPUTER: usize = 64;
/// Readers of one account that may pause, on whichever computers: about 50 MiB.
const MAX_PER_ACCOUNT: usize = 256;

/// Whom a reader counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Subject {
    Computer(ComputerId),
    Account(AccountId),
}

/// Counts of readers that may pause.
#[derive(Debug, Default)]
pub struct OutputReaders(KeyedSemaphore<Subject>);

impl OutputReaders {
    /// Lets the client of a response pause, unless too many may already: it must then read like any other client.
    pub fn let_pause(&self, computer: ComputerId, account: AccountId, response: &mut Response) {
        let of_computer = self.0.try_acquire(Subject::Computer(computer), MAX_PER_COMPUTER);
        let of_account = self.0.try_acquire(Subject::Account(account), MAX_PER_ACCOUNT);
        if let (Some(of_computer), Some(of_account)) = (of_computer, of_account) {
            response.extensions_mut().insert(ClientMayPause::holding((of_computer, of_account)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_computer_and_an_account_have_so_many() {
        let readers = OutputReaders::default();
        let account = AccountId::random();
        let ask = |computer| {
            let mut response = Response::default();
            readers.let_pause(computer, account, &mut response);
            response.extensions().get::<ClientMayPause>().is_some().then_some(response)
        };
        let one = ComputerId::random();
        let held: Vec<_> = (0..MAX_PER_COMPUTER).map(|_| ask(one).expect("a permit")).collect();
        assert!(ask(one).is_none() && ask(ComputerId::random()).is_some());
        let others = (0..).map_while(|_| ask(ComputerId::random())).take(2 * MAX_PER_ACCOUNT);
        let others: Vec<_> = others.collect();
        assert_eq!(held.len() + others.len(), MAX_PER_ACCOUNT);
        drop(held);
        assert!(ask(one).is_some());
    }
}
