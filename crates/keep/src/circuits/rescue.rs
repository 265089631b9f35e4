// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The newest sound list of a device whose file is damaged.
//!
//! Beside a list is a copy of its sealed part, which is written after the list itself. If the list
//! is damaged, the copy takes its place, and the appended changes still count. If a change is
//! damaged, the other changes count, since each has a checksum and is a whole circuit. A copy of
//! an earlier list, as a crash may leave it, counts without changes.

use super::file::{FOLDER, ListFile};
use crate::error::KeepError;
use crate::store::damage;
use crate::store::folder::Folders;
use crate::store::sealed;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use weirgate_circuits::kept::{Kept, is_change};

impl ListFile {
    /// Reads the list; `None` if there is no file. If the file is damaged, returns the newest
    /// sound list, and what is wrong with the file.
    pub(super) fn sound(&self) -> Result<Option<(Kept, Option<String>)>, KeepError> {
        let read = self.read(true).and_then(|text| {
            let kept = text.map(|text| self.whole(&text.list, &text.changes));
            kept.transpose()
        });
        let (damaged, why) = match read {
            Ok(kept) => return Ok(kept.map(|kept| (kept, None))),
            Err(KeepError::Damaged { path, why, .. }) => (path, why),
            Err(other) => return Err(other),
        };
        let bytes = fs::read(&damaged).map_err(KeepError::file(&damaged))?;
        let copy = fs::read(self.copy()).unwrap_or_default();
        match rescued(&bytes, &copy) {
            Some(kept) => Ok(Some((kept, Some(why)))),
            None => Err(self.damaged(why)),
        }
    }

    /// Does so, and writes the sound list in place of a damaged one, which is set aside. Returns
    /// whether it was damaged. The caller holds the lock of circuits.
    pub(super) fn mended(&self) -> Result<Option<(Kept, bool)>, KeepError> {
        let Some((kept, damaged)) = self.sound()? else {
            return Ok(None);
        };
        if damaged.is_some() {
            damage::link_aside(self.path())?;
            self.write(&kept.write())?.publish()?;
        }
        Ok(Some((kept, damaged.is_some())))
    }

    /// Copies the list, if it is sound. Best effort: without a copy, a damaged list cannot be
    /// rescued. The copy is not flushed, as the list itself was.
    pub(super) fn write_copy(&self) {
        let copied = || -> std::io::Result<()> {
            let (copy, mut aside) = (self.copy(), self.copy());
            aside.as_mut_os_string().push(".new");
            // Not by the file system, which may share the blocks of both files.
            let bytes = fs::read(self.path())?;
            let (_, behind) = sealed::parts(&bytes, true).map_err(std::io::Error::other)?;
            sealed::fresh(&aside)?.write_all(&bytes[..bytes.len() - behind.len()])?;
            fs::rename(aside, copy)
        };
        let _ = copied();
    }

    /// Removes the copy: it must not come back in place of another list.
    pub(super) fn drop_copy(&self) -> Result<(), KeepError> {
        let copy = self.copy();
        match fs::remove_file(&copy) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            other => other.map_err(KeepError::file(&copy)),
        }
    }

    /// Gives the copy to another file of the same list too, by a hard link. Best effort.
    pub(super) fn link_copy(&self, other: &Self) {
        let _ = fs::remove_file(other.copy());
        let _ = fs::hard_link(self.copy(), other.copy());
    }

    /// Takes the copy from a file whose list is now this one.
    pub(super) fn take_copy(&self, other: &Self) {
        if fs::rename(other.copy(), self.copy()).is_err() {
            self.write_copy();
        }
    }

    fn copy(&self) -> PathBuf {
        let mut copy = self.path().to_owned();
        copy.as_mut_os_string().push("-copy");
        copy
    }
}

/// Returns the newest sound list of a damaged file and the copy of its list.
fn rescued(bytes: &[u8], copy: &[u8]) -> Option<Kept> {
    let own = sealed::parts(bytes, true).ok();
    let (list, behind) = match own {
        Some(parts) => parts,
        None => (sealed::parts(copy, true).ok()?.0, behind(bytes, copy)),
    };
    let whole = behind.iter().rposition(|byte| *byte == b'\n');
    let lines = behind[..whole.map_or(0, |at| at + 1)].split_inclusive(|byte| *byte == b'\n');
    let lines: Vec<Option<&str>> = lines
        .map(|line| {
            let line = std::str::from_utf8(line).ok()?;
            is_change(line.trim_end_matches('\n')).then_some(line)
        })
        .collect();
    if own.is_some() && lines.iter().all(Option::is_some) {
        // Nothing is damaged: another version wrote it.
        return None;
    }
    let list = std::str::from_utf8(list).ok()?;
    let all: String = lines.iter().flatten().copied().collect();
    let first: String = lines.iter().map_while(|line| *line).collect();
    // Without the damaged change, the later ones may contradict each other.
    [all, first]
        .iter()
        .find_map(|changes| Kept::read(list, changes).ok())
}

/// Returns the changes behind a damaged list, if the copy is one of the same list: the first line,
/// which has length and checksum, or else the rest is equal.
fn behind<'b>(bytes: &'b [u8], copy: &[u8]) -> &'b [u8] {
    let Some((own, behind)) = bytes.split_at_checked(copy.len()) else {
        return &[];
    };
    let head = copy.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    if own[..head] == copy[..head] || own[head..] == copy[head..] {
        behind
    } else {
        &[]
    }
}

/// Returns the damaged files of circuits that were set aside, each with what it was.
pub(super) fn damages(folders: &Folders) -> Result<Vec<String>, KeepError> {
    let found = damage::found(&folders.state.join(FOLDER))?;
    let found = found.into_iter().map(|(path, _)| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let path = path.display();
        format!(
            "a stored file of circuits ({stem}) was damaged; what is sound of it and of its copy \
             was used, as `weirgate circuits status` shows it; the damaged file is {path}"
        )
    });
    Ok(found.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::circuits::file::{HINT, ListFile};
    use std::path::Path;
    use weirgate_circuits::kept::{gone, put};
    use weirgate_circuits::{File, One, read};
    use weirgate_state::DeviceName;
    use weirgate_units::Direction;

    const HEAD: &str = "Circuit ID,IPv4,Download Max Mbps,Upload Max Mbps";

    fn kept(lines: &str) -> Kept {
        let text = format!("{HEAD}\n{lines}");
        let file = File {
            name: "list",
            text: &text,
        };
        Kept {
            direction: Direction::Down,
            link: None,
            queues: None,
            list: read(&[file]).list.unwrap(),
        }
    }

    /// Returns the line that gives a circuit this address and rate.
    fn change(id: &str, rate: u32) -> String {
        let circuit = kept(&format!("{id},192.0.2.{rate},{rate},1\n"));
        put(&One {
            circuit: circuit.list.circuits[0].clone(),
            site: None,
        })
    }

    /// Returns the circuits and their rates, in Mbit/s.
    fn rates(kept: &Kept) -> Vec<(String, u64)> {
        let one = |one: &weirgate_circuits::Circuit| {
            let rate = one.most.down.as_bits_per_second() / 1_000_000;
            (one.id.clone(), rate)
        };
        let mut all: Vec<_> = kept.list.circuits.iter().map(one).collect();
        all.sort();
        all
    }

    fn flip(path: &Path, at: usize) {
        let mut bytes = fs::read(path).unwrap();
        bytes[at] ^= 4;
        fs::write(path, bytes).unwrap();
    }

    fn device(state: &Path) -> ListFile {
        let folders = Folders {
            run: state.to_owned(),
            state: state.to_owned(),
            boot: String::new(),
        };
        ListFile::of(&folders, &DeviceName::new("access0").unwrap())
    }

    fn append(file: &ListFile, line: &str) {
        let text = file.read(false).unwrap().unwrap();
        file.append(&text, line).unwrap();
    }

    #[test]
    fn no_single_wrong_bit_loses_a_list() {
        let state = tempfile::tempdir().unwrap();
        let file = device(state.path());
        let first = kept("a,192.0.2.1,1,1\nb,192.0.2.2,2,1\n");
        file.write(&first.write()).unwrap().publish().unwrap();
        append(&file, &change("b", 22));
        append(&file, &change("c", 3));
        let whole = fs::read(file.path()).unwrap();
        let text = |one: &[(&str, u64)]| -> Vec<(String, u64)> {
            one.iter()
                .map(|(id, rate)| ((*id).to_owned(), *rate))
                .collect()
        };
        let all = text(&[("a", 1), ("b", 22), ("c", 3)]);
        let without = [
            text(&[("a", 1), ("b", 2), ("c", 3)]),
            text(&[("a", 1), ("b", 22)]),
        ];
        let sealed = file.read(false).unwrap().unwrap().sealed;
        for at in 0..whole.len() {
            flip(file.path(), at);
            let (sound, damaged) = file.sound().unwrap().unwrap();
            let found = rates(&sound);
            if at < sealed {
                assert_eq!((found, damaged.is_some()), (all.clone(), true), "byte {at}");
            } else if whole[at] != b'\n' {
                assert!(
                    damaged.is_some() && without.contains(&found),
                    "byte {at}: {found:?}"
                );
            }
            fs::write(file.path(), &whole).unwrap();
        }
        // The sound list takes the place of the damaged one, which is set aside.
        flip(file.path(), sealed / 2);
        let (_, was) = file.mended().unwrap().unwrap();
        assert!(was);
        let (sound, damaged) = file.sound().unwrap().unwrap();
        assert_eq!((rates(&sound), damaged), (all, None));
        let aside = fs::read(file.path().with_extension("damaged")).unwrap();
        assert_eq!(aside.len(), whole.len());
        assert!(!file.mended().unwrap().unwrap().1);
    }

    #[test]
    fn a_copy_of_an_earlier_list_counts_without_changes() {
        let state = tempfile::tempdir().unwrap();
        let file = device(state.path());
        let first = kept("a,192.0.2.1,1,1\n");
        file.write(&first.write()).unwrap().publish().unwrap();
        let copy = fs::read(file.copy()).unwrap();
        let second = kept("a,192.0.2.1,7,1\n");
        file.write(&second.write()).unwrap().publish().unwrap();
        append(&file, &gone("a"));
        // As after a crash between both.
        fs::write(file.copy(), &copy).unwrap();
        flip(file.path(), copy.len() / 2);
        let (sound, damaged) = file.sound().unwrap().unwrap();
        assert_eq!(rates(&sound), [("a".to_owned(), 1)]);
        assert!(damaged.is_some_and(|why| why.contains("checksum")));
        // Without a sound copy, it is refused as before.
        flip(&file.copy(), copy.len() / 2);
        let refused = file.sound().unwrap_err().to_string();
        assert!(
            refused.contains("checksum") && refused.contains(HINT),
            "{refused}"
        );
    }

    #[test]
    fn a_list_that_is_taken_back_is_not_rescued() {
        let state = tempfile::tempdir().unwrap();
        let file = device(state.path());
        let folders = Folders {
            run: state.path().to_owned(),
            state: state.path().to_owned(),
            boot: String::new(),
        };
        let name = DeviceName::new("access0").unwrap();
        let list = |rate: u32| kept(&format!("a,192.0.2.1,{rate},1\n")).write();
        file.write(&list(1)).unwrap().publish().unwrap();
        assert!(ListFile::keep_former(&folders, &name).unwrap());
        file.write(&list(7)).unwrap().publish().unwrap();
        // The former list is damaged while another one waits for confirmation.
        let former = file.path().with_extension("former");
        let length = fs::metadata(&former).unwrap().len() as usize;
        flip(&former, length / 2);
        let read = ListFile::read_former(&folders, &name).unwrap().unwrap();
        assert_eq!(rates(&read), [("a".to_owned(), 1)]);
        ListFile::put_former(&folders, &name).unwrap();
        let (sound, damaged) = file.sound().unwrap().unwrap();
        assert_eq!(rates(&sound), [("a".to_owned(), 1)]);
        assert!(damaged.is_some());
        assert!(file.mended().unwrap().unwrap().1);
        let left = fs::read_dir(state.path().join(FOLDER)).unwrap();
        let mut left: Vec<_> = left.map(|one| one.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(
            left,
            ["access0.damaged", "access0.list", "access0.list-copy"]
        );
    }

    #[test]
    fn what_another_version_wrote_is_not_replaced() {
        let state = tempfile::tempdir().unwrap();
        let file = device(state.path());
        let first = kept("a,192.0.2.1,1,1\n");
        file.write(&first.write()).unwrap().publish().unwrap();
        let copy = fs::read(file.copy()).unwrap();
        file.write("circuits 2 down").unwrap().publish().unwrap();
        fs::write(file.copy(), copy).unwrap();
        let refused = file.sound().unwrap_err().to_string();
        assert!(refused.contains("another version"), "{refused}");
    }
}
