//! The words of readers that have consumed the end, and the answers.

use super::super::Marks;
use super::{Link, LinkState, Producer};
use crate::error::{BindError, Cause};
use crate::id::BindEpoch;
use crate::wire::*;

impl Producer {
    /// Answers the word of the stream's own acknowledgement or close that the end is consumed, if it was that.
    pub(super) fn confirm(
        &mut self,
        link: &mut Link,
        index: usize,
        stream: StreamId,
        marks: &mut Marks,
    ) -> bool {
        let sub = &mut self.subs[index];
        let served = sub.served.as_ref().filter(|served| served.at == Some((link.line, stream)));
        let Some(served) = served else { return false };
        let consumed = served.outgoing.consumed().position();
        if served.base + consumed.bytes + consumed.entries < sub.total {
            return false;
        }
        sub.is_done = true;
        marks.note("end consumed");
        let epoch = served.outgoing.epoch();
        self.say_consumed(link, stream, epoch);
        true
    }

    fn say_consumed(&mut self, link: &mut Link, stream: StreamId, epoch: BindEpoch) {
        let LinkState::Open(agreed, _) = &link.state else { return };
        let gone = Gone { stream, epoch, cause: Cause::Consumed };
        Frame::Gone(gone).encode(&mut link.out, agreed.features);
        self.end(link, stream);
    }

    /// A reader tells by another connection that it has consumed the end.
    pub(super) fn on_ended(&mut self, link: &mut Link, bind: &Bind, ended: &Ended, marks: &mut Marks) {
        let index = bind.subpartition as usize;
        let sub = &mut self.subs[index];
        if !sub.is_done && ended.epoch.0 != sub.epoch {
            let error = BindError::Superseded { newer: bind.attempt };
            self.refuse(link, bind.stream, error);
            marks.note("end told too late");
            return;
        }
        if !sub.is_done {
            // It speaks of exactly what that bind was sent.
            assert_eq!(ended.incarnation, self.incarnation);
            let (base, _) = self.bases[&(index, ended.epoch)];
            assert_eq!(base + ended.consumed.bytes + ended.consumed.entries, sub.total);
            assert_eq!(sub.taken, sub.total);
            sub.is_done = true;
            sub.served = None;
            marks.note("end told again");
        } else {
            marks.note("end told twice");
        }
        self.say_consumed(link, bind.stream, ended.epoch);
    }

    fn refuse(&mut self, link: &mut Link, stream: StreamId, error: BindError) {
        let LinkState::Open(agreed, session) = &mut link.state else { return };
        Frame::Refused(Refused { stream, error }).encode(&mut link.out, agreed.features);
        session.close(stream);
    }
}
