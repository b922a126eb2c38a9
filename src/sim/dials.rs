//! What a control thread does: connections are made, and handed to the cores at both ends.

use super::agenda::{Due, LinkOf};
use super::oracle::Verdict;
use super::worker::socket_of;
use super::world::World;
use crate::id::RemoteAddress;
use crate::net::{Adopted, Command, Share, ShareLimits};
use crate::protocol::Agreed;
use crate::wire::{Features, Purpose};

impl World {
    /// Whoever a core of this worker wants to reach is dialled.
    pub(super) fn take_dials(&mut self, serial: usize) {
        let dials = self.workers[serial].dials.clone();
        while let Some((peer, endpoint)) = dials.pop() {
            self.soon(0..3000, Due::Dial { from: serial, endpoint, peer });
        }
    }

    pub(super) fn dial(&mut self, from: usize, endpoint: u16, peer: RemoteAddress) -> Verdict {
        let machine = (0..self.machines.len()).find(|machine| socket_of(*machine) == peer.socket);
        let host = machine.and_then(|machine| self.machines[machine]);
        let host = host.filter(|host| usize::from(peer.endpoint) < self.workers[*host].cores.len());
        let Some(host) = host.filter(|_| !self.random.chance(20)) else {
            self.oracle.marks.note("dial failed");
            let command = Command::DialFailed { peer, reason: "nobody listens".into() };
            self.soon(0..3000, Due::Tell { worker: from, endpoint, command });
            return Ok(());
        };
        let pair = self.network.pair().map_err(|error| error.to_string())?;
        self.oracle.marks.note("dialled");
        self.links.push(LinkOf { id: pair.link, ends: [from, host] });
        let (mine, theirs) = pair.sockets;
        let agreed = |world: &Self, serial: usize| Agreed {
            version: 1,
            features: if world.plan.checksums { Features::CRC } else { Features::NONE },
            payload_bytes_max: world.plan.payload_bytes,
            peer_worker: world.workers[serial].id,
            peer_address: String::new(),
            purpose: Purpose::Data,
            endpoint: peer.endpoint,
        };
        let (binder, server) = (agreed(self, host), agreed(self, from));
        let socket = self.workers[from].socket;
        let adopt = |socket, agreed, dialled, from| {
            // What a peer may hold is the control thread's to say: it is generous here.
            let seat = Share::new(ShareLimits::default()).own_seat();
            Command::Adopt(Box::new(Adopted { socket, agreed, dialled, from, seat }))
        };
        let command = adopt(mine, binder, Some(peer), peer.socket);
        self.soon(0..2000, Due::Tell { worker: from, endpoint, command });
        let command = adopt(theirs, server, None, socket);
        self.soon(0..2000, Due::Tell { worker: host, endpoint: peer.endpoint, command });
        Ok(())
    }
}
