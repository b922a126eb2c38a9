//! News for endpoints, of which none but a stranger's connection may get lost.
//!
//! An endpoint that doesn't come to its queue for long has a full one. What it must hear (answers to its dials,
//! deaths) waits here then, in its order, and is offered again every few milliseconds. That is bounded: an endpoint
//! that takes nothing asks for nothing more, and there are `peers_max` workers that can die. A connection that came
//! in is closed instead: the other worker sees that, and tries again by itself.

use super::port::{Adopted, DialError, DialRequest, News};
use super::{Control, Timer};
use crate::clock::Moment;
use std::collections::VecDeque;
use std::time::Duration;

/// How long an endpoint with a full queue is left alone.
const AGAIN: Duration = Duration::from_millis(5);

/// News that were not taken, by endpoint.
pub(super) type Untold = std::collections::BTreeMap<u16, VecDeque<News>>;

impl Control {
    /// Tells every endpoint.
    pub(super) fn tell_all(&mut self, now: Moment, news: impl Fn() -> News) {
        for endpoint in self.endpoints.numbers() {
            self.tell(endpoint, news(), now);
        }
    }

    pub(super) fn dial_failed(&mut self, request: DialRequest, error: DialError, now: Moment) {
        self.tell(request.from, News::DialFailed { peer: request.peer, error }, now);
    }

    /// Tells one endpoint, behind what it hasn't taken yet.
    pub(super) fn tell(&mut self, endpoint: u16, news: News, now: Moment) {
        // Who is gone by now waits for no answer.
        let Some(port) = self.endpoints.get(endpoint) else { return };
        let full = match self.untold.get(&endpoint) {
            Some(_) => Err(news),
            None => port.tell(news),
        };
        match full {
            Ok(()) => {}
            Err(News::Adopt(adopted)) if adopted.dialled.is_none() => {
                let Adopted { peer, .. } = *adopted;
                let text = format!("endpoint {endpoint} has too much to do");
                self.shared.journal.note(now, "endpoint full", &peer, &text);
            }
            Err(news) => {
                self.untold.entry(endpoint).or_default().push_back(news);
                self.timers.insert((now.plus(AGAIN), Timer::Tell(endpoint)));
            }
        }
    }

    /// Offers an endpoint again what it hasn't taken.
    pub(super) fn tell_again(&mut self, endpoint: u16, now: Moment) {
        let Some(mut waiting) = self.untold.remove(&endpoint) else { return };
        let Some(port) = self.endpoints.get(endpoint) else { return };
        while let Some(news) = waiting.pop_front() {
            if let Err(news) = port.tell(news) {
                waiting.push_front(news);
                self.untold.insert(endpoint, waiting);
                self.timers.insert((now.plus(AGAIN), Timer::Tell(endpoint)));
                return;
            }
        }
    }
}
