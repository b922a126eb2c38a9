//! Connections by name.

use super::ConnectionId;

/// What a transport knows of its connections.
#[derive(Debug)]
pub(super) struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    /// Of the connection that is here, or of the next one.
    generation: u32,
    value: Option<T>,
}

impl<T> Table<T> {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    /// Gives `value` a name that nothing had before. `None` after 2^32 places, each used 2^32 times.
    pub(super) fn insert(&mut self, value: T) -> Option<ConnectionId> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                let index = u32::try_from(self.slots.len()).ok()?;
                self.slots.push(Slot { generation: 0, value: None });
                index
            }
        };
        let slot = &mut self.slots[index as usize];
        slot.value = Some(value);
        Some(ConnectionId { index, generation: slot.generation })
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<&T> {
        let slot = self.slots.get(id.index as usize)?;
        if slot.generation == id.generation { slot.value.as_ref() } else { None }
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.generation == id.generation { slot.value.as_mut() } else { None }
    }

    /// Who is at `index` now.
    pub(super) fn at(&self, index: usize) -> Option<ConnectionId> {
        let slot = self.slots.get(index)?;
        let index = u32::try_from(index).ok()?;
        slot.value.as_ref().map(|_| ConnectionId { index, generation: slot.generation })
    }

    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<T> {
        let slot = self.slots.get_mut(id.index as usize).filter(|slot| slot.generation == id.generation)?;
        let value = slot.value.take()?;
        // A place whose names are used up stays empty.
        if let Some(next) = slot.generation.checked_add(1) {
            slot.generation = next;
            self.free.push(id.index);
        }
        Some(value)
    }

    /// All names in use.
    pub(super) fn ids(&self) -> impl Iterator<Item = ConnectionId> {
        (0..self.slots.len()).filter_map(|index| self.at(index))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

    use super::*;

    #[test]
    fn a_name_is_used_once() {
        let mut table = Table::new();
        let first = table.insert('a').unwrap();
        let second = table.insert('b').unwrap();
        assert_eq!(table.remove(first), Some('a'));
        let third = table.insert('c').unwrap();
        assert_eq!((third.index, third.generation), (first.index, first.generation + 1));
        assert_eq!((table.get(first).copied(), table.get_mut(first).copied()), (None, None));
        assert_eq!(table.remove(first), None);
        assert_eq!(table.get_mut(third).copied(), Some('c'));
        assert_eq!(table.ids().collect::<Vec<_>>(), [third, second]);
        assert_eq!((table.at(0), table.at(1), table.at(2)), (Some(third), Some(second), None));
    }

    #[test]
    fn a_place_with_no_names_left_is_not_used_again() {
        let mut table = Table::new();
        let first = table.insert(1).unwrap();
        table.slots[0].generation = u32::MAX;
        let last = ConnectionId { generation: u32::MAX, ..first };
        assert_eq!(table.remove(last), Some(1));
        assert_eq!(table.insert(2).unwrap(), ConnectionId { index: 1, generation: 0 });
        assert_eq!(table.remove(last), None);
    }
}
