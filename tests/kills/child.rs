//! Consumers as processes of their own: this program again, told by its environment what it is.
//!
//! A child dies with its parent: by the kernel's signal, asked for before anything else.

use crate::common::{KILLED, STUCK, SUBPARTITIONS, consumer_log, now, sleep, worker};
use crate::consumer::{Over, consume};
use crate::log::Log;
use pirn::{ChannelDescriptor, Io};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const ATTEMPT: &str = "PIRN_KILLS_ATTEMPT";
const CHANNELS: &str = "PIRN_KILLS_CHANNELS";
const FOLDER: &str = "PIRN_KILLS_FOLDER";
const IO: &str = "PIRN_KILLS_IO";
const PARENT: &str = "PIRN_KILLS_PARENT";

/// A consumer process. Dropping it ends the process.
pub(crate) struct Child(std::process::Child);

impl Child {
    /// Starts attempt `attempt` of the consumer of each of `channels`. To be called on the main thread: the signal
    /// comes when the thread that called this is gone.
    pub(crate) fn spawn(io: Io, folder: &Path, attempt: u8, channels: &[ChannelDescriptor]) -> Self {
        let hex = |channel: &ChannelDescriptor| -> String {
            channel.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
        };
        let channels: Vec<String> = channels.iter().map(hex).collect();
        let child = Command::new(std::env::current_exe().unwrap())
            .env(ATTEMPT, attempt.to_string())
            .env(CHANNELS, channels.join(","))
            .env(FOLDER, folder)
            .env(IO, if io == Io::Epoll { "epoll" } else { "auto" })
            .env(PARENT, std::process::id().to_string())
            .stdin(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    /// Kills it, which must be alive until then.
    pub(crate) fn kill(mut self) {
        self.assert_alive();
        self.0.kill().unwrap();
        let status = self.0.wait().unwrap();
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "{status}");
    }

    pub(crate) fn assert_alive(&mut self) {
        let status = self.0.try_wait().unwrap();
        assert!(status.is_none(), "a consumer has ended by itself, {status:?}");
    }

    /// Waits for its end, which must be a success.
    pub(crate) fn end(mut self) {
        let deadline = now() + STUCK.as_nanos() as u64;
        let status = loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                break status;
            }
            assert!(now() < deadline, "a consumer doesn't end");
            sleep(Duration::from_millis(1));
        };
        assert!(status.success(), "a consumer failed: {status}");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Fails only where it has ended already.
        if matches!(self.0.try_wait(), Ok(None)) && self.0.kill().is_ok() {
            self.0.wait().unwrap();
        }
    }
}

/// The child's side; `None` in the parent.
pub(crate) fn run() -> Option<ExitCode> {
    let attempt = std::env::var(ATTEMPT).ok()?;
    match consumers(&attempt) {
        Ok(()) => Some(ExitCode::SUCCESS),
        Err(error) => {
            eprintln!("consumer process {}, attempt {attempt}: {error}", std::process::id());
            Some(ExitCode::FAILURE)
        }
    }
}

fn consumers(attempt: &str) -> Result<(), String> {
    let variable = |name: &str| std::env::var(name).map_err(|error| format!("{name}: {error}"));
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| error.to_string())?;
    let parent: u32 = variable(PARENT)?.parse().map_err(|_| PARENT)?;
    if getppid().is_none_or(|now| now.as_raw_nonzero().get().unsigned_abs() != parent) {
        return Err("the parent is gone".into());
    }
    let attempt: u8 = attempt.parse().map_err(|_| ATTEMPT)?;
    let folder = PathBuf::from(variable(FOLDER)?);
    let io = if variable(IO)? == "epoll" { Io::Epoll } else { Io::Auto };
    let worker = worker(Some(io), 64);
    let text = variable(CHANNELS)?;
    let is_over = AtomicBool::new(false);
    let channels: Vec<ChannelDescriptor> = text.split(',').map(channel).collect::<Result<_, _>>()?;
    thread::scope(|scope| {
        // Wakes up as those do who wait for a moment only.
        let keeper = (channels.len() > 1).then(|| scope.spawn(|| keep_time(&channels, &folder, &is_over)));
        let readers: Vec<_> = channels
            .iter()
            .map(|channel| {
                let (worker, folder) = (&worker, &folder);
                scope.spawn(move || consume(worker, channel, attempt, folder))
            })
            .collect();
        // All of them, and then the time keeper, whatever they say: the scope waits for every thread.
        let overs: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        is_over.store(true, Ordering::SeqCst);
        keeper
            .map_or(Ok(()), |keeper| keeper.join().map_err(|_| "the time keeper panicked".to_owned())?)?;
        for over in overs {
            match over.map_err(|_| "a reader panicked")?? {
                Over::End => {}
                // It waits for its end, which comes.
                Over::Fenced => sleep(STUCK),
                Over::Dropped => return Err("nobody drops the gates of processes".to_owned()),
            }
        }
        Ok(())
    })?;
    let last = worker.shutdown(Duration::from_secs(1));
    if last.lost_wakeups != 0 || last.net.violations != 0 || !last.census.is_whole() {
        return Err(format!("{last:?}"));
    }
    Ok(())
}

/// Notes for all `channels` how much longer than it should a thread of this process sleeps that does nothing else.
fn keep_time(channels: &[ChannelDescriptor], folder: &Path, is_over: &AtomicBool) -> Result<(), String> {
    const REST: Duration = Duration::from_millis(1);
    let open = |channel: &ChannelDescriptor| Log::open(&consumer_log(folder, channel.subpartition));
    let logs: Vec<Log> =
        channels.iter().map(open).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    while !is_over.load(Ordering::SeqCst) {
        let lies_down = now();
        sleep(REST);
        let overslept = (now() - lies_down).saturating_sub(REST.as_nanos() as u64);
        logs.iter().for_each(|log| log.stall(overslept));
    }
    Ok(())
}

fn channel(hex: &str) -> Result<ChannelDescriptor, String> {
    let byte = |at| u8::from_str_radix(hex.get(at..at + 2).unwrap_or_default(), 16);
    let bytes: Vec<u8> =
        (0..hex.len()).step_by(2).map(byte).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    ChannelDescriptor::from_bytes(&bytes).map_err(|error| error.to_string())
}

/// The subpartitions of the siblings.
pub(crate) fn siblings() -> impl Iterator<Item = u32> {
    (0..SUBPARTITIONS).filter(|subpartition| *subpartition != KILLED)
}
