//! A thread that turns a core until its end.

use super::core::NetCore;
use crate::metrics::cold_event;
use crate::transport::Transport;

/// Turns the core until it was told to stop and nothing is under way any more, or the transport can't go on.
pub(crate) fn drive<T: Transport>(mut core: NetCore, mut transport: T) {
    loop {
        match core.turn(&mut transport, None) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                cold_event!(error, %error, "a network thread ends: its transport can't go on");
                return;
            }
        }
    }
}
