use std::{
    collections::VecDeque,
    fmt,
    fs::File,
    future::Future,
    io::{self, Read, Seek, Write},
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;

use super::{CollectError, blocking::Task};

/// How much of an answer is kept, and where.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    /// Bytes in memory; beyond them, a file.
    pub(super) memory: usize,
    pub(super) total: u64,
    pub(super) place: Place,
}

/// Where the file is made.
#[derive(Clone)]
pub(super) enum Place {
    /// The system's directory for temporary files.
    Temporary,
    Directory(PathBuf),
    #[cfg(test)]
    Made(Arc<dyn Fn() -> io::Result<File> + Send + Sync>),
}

impl Place {
    /// A file that has no name: it is gone with its last handle, whatever ends the process. On Unix only its owner may
    /// read it (mode 0600).
    pub(super) fn make(&self) -> io::Result<File> {
        let file = match self {
            Self::Temporary => tempfile::tempfile(),
            Self::Directory(directory) => tempfile::tempfile_in(directory),
            #[cfg(test)]
            Self::Made(make) => return make(),
        }?;
        // By default the process' umask decides. Nothing has been written yet.
        #[cfg(unix)]
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        Ok(file)
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Temporary => f.write_str("Temporary"),
            Self::Directory(directory) => directory.fmt(f),
            #[cfg(test)]
            Self::Made(_) => f.write_str("Made"),
        }
    }
}

/// What has come of an answer: the frames themselves while they are few, then a file, written in batches beside the reading.
pub(super) struct Store {
    limits: Arc<Limits>,
    total: u64,
    /// What is not in the file.
    frames: Vec<Bytes>,
    held: usize,
    file: Option<File>,
    writing: Option<Task<File>>,
}

impl Store {
    pub(super) fn new(limits: Arc<Limits>) -> Self {
        Self {
            limits,
            total: 0,
            frames: Vec::new(),
            held: 0,
            file: None,
            writing: None,
        }
    }

    /// # Errors
    /// Where the answer is larger than it may be.
    pub(super) fn push(&mut self, bytes: Bytes) -> Result<(), CollectError> {
        self.total += bytes.len() as u64;
        if self.total > self.limits.total {
            let limit = self.limits.total;
            return Err(CollectError::TooLarge { limit });
        }
        self.held += bytes.len();
        self.frames.push(bytes);
        Ok(())
    }

    /// Ready where there is room for another frame.
    pub(super) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CollectError>> {
        let batch = self.limits.memory.clamp(MIN_BATCH, MAX_BATCH);
        loop {
            let on_disk = self.file.is_some() || self.writing.is_some();
            let is_due = if on_disk {
                self.held >= batch
            } else {
                self.held > self.limits.memory
            };
            if !is_due {
                return Poll::Ready(Ok(()));
            }
            if self.writing.is_none() {
                self.write();
                continue;
            }
            ready!(self.poll_written(cx))?;
        }
    }

    /// Ready when all that came is where it is to be read from.
    pub(super) fn poll_kept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Kept, CollectError>> {
        loop {
            if self.writing.is_some() {
                ready!(self.poll_written(cx))?;
            } else if self.file.is_some() && !self.frames.is_empty() {
                self.write();
            } else {
                break;
            }
        }
        Poll::Ready(Ok(Kept {
            left: self.total,
            frames: std::mem::take(&mut self.frames).into(),
            reading: self.file.take().map(|file| {
                Task::new(move || {
                    let mut file = file;
                    file.rewind()?;
                    read(file)
                })
            }),
        }))
    }

    fn write(&mut self) {
        let frames = std::mem::take(&mut self.frames);
        self.held = 0;
        let file = self.file.take();
        let limits = Arc::clone(&self.limits);
        self.writing = Some(Task::new(move || {
            let mut file = match file {
                Some(file) => file,
                None => limits.place.make()?,
            };
            for frame in frames {
                file.write_all(&frame)?;
            }
            Ok(file)
        }));
    }

    fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CollectError>> {
        if let Some(writing) = &mut self.writing {
            let written = ready!(Pin::new(writing).poll(cx));
            self.writing = None;
            self.file = Some(written.map_err(CollectError::Storage)?);
        }
        Poll::Ready(Ok(()))
    }
}

/// An answer that is all there, to be read once.
pub(super) struct Kept {
    left: u64,
    frames: VecDeque<Bytes>,
    /// The next piece of the file: read ahead of who asks for it.
    reading: Option<Task<(File, Bytes)>>,
}

impl Kept {
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    pub(super) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, CollectError>>> {
        let next = match &mut self.reading {
            // Frames are kept only where there is no file.
            None => self.frames.pop_front(),
            Some(reading) => {
                let read_ahead = ready!(Pin::new(reading).poll(cx));
                self.reading = None;
                match read_ahead {
                    Ok((file, bytes)) => {
                        let more = self.left.saturating_sub(bytes.len() as u64);
                        if more > 0 && !bytes.is_empty() {
                            self.reading = Some(Task::new(move || read(file)));
                        }
                        if bytes.is_empty() && more > 0 {
                            let error = io::ErrorKind::UnexpectedEof.into();
                            return Poll::Ready(Some(Err(CollectError::Storage(error))));
                        }
                        Some(bytes)
                    }
                    Err(error) => {
                        return Poll::Ready(Some(Err(CollectError::Storage(error))));
                    }
                }
            }
        };
        if let Some(bytes) = &next {
            self.left = self.left.saturating_sub(bytes.len() as u64);
        }
        Poll::Ready(next.map(Ok))
    }
}

fn read(mut file: File) -> io::Result<(File, Bytes)> {
    let mut piece = Vec::with_capacity(PIECE);
    (&mut file).take(PIECE as u64).read_to_end(&mut piece)?;
    Ok((file, piece.into()))
}

/// Bytes that are read from the file at a time.
const PIECE: usize = 256 * 1024;
/// Bytes that are written to the file at a time: a switch to another thread costs some ten microseconds.
const MIN_BATCH: usize = 64 * 1024;
const MAX_BATCH: usize = 1024 * 1024;
