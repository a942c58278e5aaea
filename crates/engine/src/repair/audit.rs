//! Verifying a shard and repairing it: after a death, and for `check`. Must not know how entries
//! are stored or evicted.
//!
//! Everything that a shard counts or lists follows from three things: the logs (from tail to
//! head), the index directory, and the slots. An audit walks these, clears slots that do not lead
//! to an entry of theirs, frees segments that the shard owns but nothing reaches, and corrects the
//! counts. It may itself be killed: the next audit starts from the beginning and comes to the same
//! result.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Arguments;
use std::sync::atomic::Ordering;

use tuckbox_arena::hooks::{self, Point};
use tuckbox_arena::segments::Owner;

use crate::error::lengthen;
use crate::format::{
    flag, log, note, segment_of, shard, LogKind, Position, RecordHeader, Sequence, Shape, Slot,
};
use crate::index::Index;
use crate::storage::with_scratch;
use crate::value::{CheckReport, Loss};

/// Most findings in a report.
const FINDINGS_MAX: usize = 100;

/// No shard ever counts this many writes.
const VERSIONS_END: u64 = 1 << 63;

/// What the logs reach: for each segment its log and the bytes between which records may begin. No
/// hash tables: the standard library's panic if the system has no random numbers for them.
#[derive(Default)]
struct Reach {
    segments: BTreeMap<u32, (LogKind, u64, u64)>,
    /// For each of these, how many records it was said to have a part of, and how many were found.
    live: BTreeMap<u32, (u64, u64)>,
    others: BTreeSet<u32>,
    /// How many of the others are index and how many spare; the rest are bodies.
    index: u64,
    spares: u64,
    /// Segment and byte where verified entries begin, and the length of their records. Only for
    /// [`Cause::Check`].
    entries: BTreeMap<(u32, u64), u64>,
    /// Bytes at the beginning of a segment that belong to a verified entry of the previous one.
    /// Only for [`Cause::Check`].
    rests: BTreeMap<u32, u64>,
}

/// A recount of one log.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Count {
    entries: u64,
    bytes: u64,
    body_bytes: u64,
}

/// Why a shard is audited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// Its last writer died: counts may be ahead of or behind what it did.
    Death,
    /// It seems damaged: an entry that is counted but not found has been lost.
    Damage,
    /// A user asked: as [`Cause::Damage`], and every byte is read, against the checksums.
    Check,
}

fn note_finding(report: &mut CheckReport, finding: Arguments<'_>) {
    if report.findings.len() < FINDINGS_MAX {
        report.findings.push(finding.to_string());
    }
}

layer! {
    /// A locked shard that is being verified.
    Audit(&'a Index<'a>)
}

impl Audit<'_> {
    /// Repairs what a dead writer left half done.
    pub fn repair(&self) {
        self.audit(Cause::Death, &mut CheckReport::default());
    }

    /// Repairs damage to the lists and counts of a shard that should be sound.
    pub fn repair_damage(&self) {
        self.audit(Cause::Damage, &mut CheckReport::default());
    }

    /// Verifies the whole shard and repairs it. Adds what was found to the report.
    pub fn check(&self, report: &mut CheckReport) {
        self.audit(Cause::Check, report);
    }

    /// Checks that the shard owns all segments that its logs and index name, and repairs it if not.
    /// For the first writer of a shard in a boot: a power cut can leave tables of different
    /// moments, and then two shards would write into one segment. Reads no entry.
    #[cold]
    #[inline(never)]
    pub fn check_tables(&self) {
        let mut report = CheckReport::default();
        // A power cut can leave counts and slots of different moments, also of segments that the logs
        // do not reach.
        for segment in self.arena().segments_of(Owner::Shard(self.index as u32)) {
            let kept = self.arena().note(segment, note::LIVE) & note::LIVE_GAP;
            self.arena().set_note(segment, note::LIVE, kept | note::LIVE_UNCOUNTED);
        }
        let mut reach = self.walk_logs(&mut report);
        let is_sound = report.findings.is_empty() && self.walk_directory(&mut reach);
        if !is_sound {
            self.repair_damage();
        }
        self.set_word(shard::BOOT, self.arena().boot());
    }

    /// Removes all entries; how many there were.
    pub fn clear(&self) -> u64 {
        let count = self.entries();
        self.advance_epoch();
        hooks::reach(Point::EpochAdvanced);
        self.reset_logs();
        // Nothing refers to the bodies of large values now; a repair frees them.
        if self.word(shard::BODY_SEGMENTS) > 0 {
            self.repair();
        }
        count
    }

    fn audit(&self, cause: Cause, report: &mut CheckReport) {
        let counted = self.plausible(self.entries());
        let damaged_before = report.damaged_entries;
        let version = self.plausible_version(self.word(shard::SEQUENCE), report);
        self.set_word(shard::SEQUENCE, version);
        self.resolve_intent(report);
        hooks::reach(Point::RepairStep);
        let mut reach = self.walk_logs(report);
        hooks::reach(Point::RepairStep);
        if !self.walk_directory(&mut reach) {
            self.list(report, format_args!("the index directory was damaged; it was emptied"));
            // No death leaves the directory in this state.
            self.count_lost(counted, "the index directory was damaged", report);
            return self.reset(report);
        }
        hooks::reach(Point::RepairStep);
        let counts = self.walk_index(cause, &mut reach, report);
        hooks::reach(Point::RepairStep);
        if cause == Cause::Check {
            self.repair_dead_records(&reach);
        }
        self.drop_invalid_spares(&mut reach);
        hooks::reach(Point::RepairStep);
        self.free_unreached(&reach, report);
        hooks::reach(Point::RepairStep);
        // Entries dropped by a walk are reported by now; others without a slot are only counted.
        let dropped = report.damaged_entries - damaged_before;
        let found = counts.iter().map(|count| count.entries).sum::<u64>() + dropped;
        if cause != Cause::Death {
            self.count_lost(counted.saturating_sub(found), "no index slot points to it", report);
        }
        self.correct_counts(counts, report);
        self.correct_live(&reach, report);
        report.segments_log += reach.segments.len() as u64;
        report.segments_index += reach.index;
        report.segments_spare += reach.spares;
        report.segments_body += reach.others.len() as u64 - reach.index - reach.spares;
    }

    /// Lists a finding about this shard in the report.
    fn list(&self, report: &mut CheckReport, finding: Arguments<'_>) {
        note_finding(report, format_args!("shard {}: {finding}", self.index));
    }

    /// The last version that the shard gave out. A count from [`VERSIONS_END`] on is damaged: only
    /// its low bits are kept, as in records, so that no version is given out twice.
    fn plausible_version(&self, last: u64, report: &mut CheckReport) -> u64 {
        if last < VERSIONS_END {
            return last;
        }
        report.wrong_counts += 1;
        self.list(report, format_args!("the version counter was damaged: it was {last}"));
        Sequence::new(last, 0).version()
    }

    /// A count of entries, or 0 if the logs cannot hold that many: such a count is damaged itself.
    fn plausible(&self, entries: u64) -> u64 {
        let end_bytes = self.arena().geometry().plan.size_bytes;
        Some(entries).filter(|count| count * RecordHeader::BYTES_MIN <= end_bytes).unwrap_or(0)
    }

    /// Counts and reports lost entries.
    fn count_lost(&self, entries: u64, why: &'static str, report: &mut CheckReport) {
        if entries == 0 || tuckbox_arena::mutants::is_on("no-loss") {
            return;
        }
        self.add_word(shard::LOST, entries);
        report.lost_entries += entries;
        match report.losses.iter_mut().find(|loss| (loss.shard, loss.reason) == (self.index, why)) {
            Some(loss) => loss.entries += entries,
            None => report.losses.push(Loss { shard: self.index, entries, reason: why }),
        }
    }

    /// Finishes or drops the record that was being rewritten in place.
    fn resolve_intent(&self, report: &mut CheckReport) {
        let intent = self.word(shard::INTENT);
        if intent == 0 {
            return;
        }
        if tuckbox_arena::mutants::is_on("early-intent-clear") {
            self.set_word(shard::INTENT, 0);
        }
        let slot_at = intent & !shard::INTENT_NUMBER;
        let inside = slot_at % 8 == 0
            && self.arena().geometry().place_of(slot_at).is_some_and(|at| self.cx.is_usable(at.0));
        let slot = if inside { Slot(self.region().get(slot_at)) } else { Slot::EMPTY };
        if let Some(header) = self.load_header(slot.offset()).filter(|_| !slot.is_empty()) {
            let is_number = intent & shard::INTENT_NUMBER != 0;
            if header.sequence.is_busy()
                && !(is_number && self.finish_number(slot.offset(), &header))
            {
                self.store_slot(slot_at, Slot::EMPTY);
                report.damaged_entries += 1;
                self.count_lost(1, "it was only partly written", report);
                self.list(report, format_args!("removed an entry that was only partly written"));
            }
        }
        self.set_word(shard::INTENT, 0);
    }

    /// Finishes an `incr`, whose record already has the checksum of the sum. False if it does not
    /// match.
    fn finish_number(&self, offset: u64, header: &RecordHeader) -> bool {
        if !header.has(flag::NUMBER) {
            return false;
        }
        with_scratch(|words| {
            let Some(header) = self.load_record(offset, words).filter(|copied| copied == header)
            else {
                return false;
            };
            let hash = self.cx.hasher.key(header.key(words));
            let (sum, number_at) = (self.word(shard::INTENT_SUM), header.number_at());
            words[number_at as usize / 8] = sum;
            let after = header.sequence.without_busy();
            let finished = header.with_sequence(after);
            let is_after = self.valid_content(offset, &finished, words, hash).is_some();
            if is_after {
                self.region().store(offset + number_at, sum, Ordering::Release);
                self.region().store(offset, after.0, Ordering::Release);
            }
            is_after
        })
    }

    fn walk_logs(&self, report: &mut CheckReport) -> Reach {
        let mut reach = Reach::default();
        for kind in LogKind::ALL {
            if self.walk_log(kind, &mut reach).is_none() {
                self.list(report, format_args!("the {kind:?} log was damaged; it was emptied"));
                reach.segments.retain(|_, (other, _, _)| *other != kind);
                reach.live.retain(|segment, _| reach.segments.contains_key(segment));
                self.set_word(kind.at() + log::HEAD, 0);
                self.set_word(kind.at() + log::TAIL, 0);
                self.set_word(kind.at() + log::SEGMENTS, 0);
            }
        }
        reach
    }

    fn walk_log(&self, kind: LogKind, reach: &mut Reach) -> Option<()> {
        if self.log_is_empty(kind) {
            // A death before the log had a head: there was no record yet.
            self.set_word(kind.at() + log::TAIL, 0);
            self.set_word(kind.at() + log::SEGMENTS, 0);
            return Some(());
        }
        let head = self.head_cursor(kind)?;
        let tail = self.tail_cursor(kind)?;
        let mut segment = tail.segment;
        let mut first = tail.byte;
        let mut before = 0;
        let mut count = 0;
        loop {
            if !self.owns(segment)
                || (reach.segments.contains_key(&segment)
                    && !tuckbox_arena::mutants::is_on("no-hops"))
            {
                return None;
            }
            let extent = self.arena().note(segment, note::EXTENT);
            let end = if segment == head.segment { head.byte } else { extent & note::EXTENT_END };
            let shape = &self.cx.shape;
            if !shape.is_place(first) || !shape.is_place(end) || first > end {
                return None;
            }
            if self.log_of(segment) != kind {
                return None;
            }
            reach.segments.insert(segment, (kind, first, end));
            let live = self.arena().note(segment, note::LIVE);
            reach.live.insert(segment, (live & note::LIVE_RECORDS, 0));
            let kept = live & note::LIVE_GAP | note::LIVE_UNCOUNTED;
            self.arena().set_note(segment, note::LIVE, before << 32 | kept);
            before = u64::from(segment) + 1;
            count += 1;
            if segment == head.segment {
                break;
            }
            segment = self.next_in_log(segment)?;
            first = self.arena().note(segment, note::EXTENT) >> 32;
        }
        // A death before the log head moved leaves a link to a segment that is not part of the log.
        self.arena().set_note(head.segment, note::NEXT, 0);
        self.set_word(kind.at() + log::SEGMENTS, count);
        Some(())
    }

    /// Whether a segment is the shard's, and nothing else was found to use it.
    fn is_unreached(&self, segment: u32, reach: &Reach) -> bool {
        self.owns(segment)
            && !reach.segments.contains_key(&segment)
            && !reach.others.contains(&segment)
    }

    fn walk_directory(&self, reach: &mut Reach) -> bool {
        let needed = self.cx.shape.bucket_place(self.index_state().buckets() - 1).0 + 1;
        if needed > self.cx.shape.directory_len {
            return false;
        }
        let mut count = 0;
        for index in 0..self.cx.shape.directory_len {
            let at = shard::DIRECTORY + index * 8;
            let sound = segment_of(self.word(at)).filter(|one| self.is_unreached(*one, reach));
            match sound {
                Some(segment) => {
                    reach.others.insert(segment);
                    count += 1;
                }
                None if index < needed && !Shape::has_ghosts(index) => return false,
                None => self.set_word(at, 0),
            }
        }
        reach.index = count;
        self.set_word(shard::INDEX_SEGMENTS, count);
        true
    }

    /// Empties the shard and gives it a new index, if the damage cannot be repaired.
    fn reset(&self, report: &mut CheckReport) {
        self.advance_epoch();
        LogKind::ALL.iter().for_each(|kind| self.forget_log(*kind));
        for index in 0..self.cx.shape.directory_len {
            self.set_word(shard::DIRECTORY + index * 8, 0);
        }
        self.spare_words().for_each(|at| self.set_word(at, 0));
        self.set_word(shard::BODY_SEGMENTS, 0);
        // Not counted as leaked: the shard gives them up with their content.
        self.free_unreached(&Reach::default(), &mut CheckReport::default());
        // The shard's own segments are free by now, so there is one.
        report.segments_index += u64::from(self.lay_out_index());
        report.wrong_counts += 1;
    }

    fn walk_index(
        &self,
        cause: Cause,
        reach: &mut Reach,
        report: &mut CheckReport,
    ) -> [Count; LogKind::COUNT] {
        let mut counts = [Count::default(); LogKind::COUNT];
        let mut version = self.word(shard::SEQUENCE);
        let (mut record, mut value) = (Vec::new(), Vec::new());
        for bucket in 0..self.bucket_count() {
            for (at, slot) in self.taken_slots(bucket) {
                match self.verify_slot(bucket, slot, cause, reach, &mut record, &mut value) {
                    SlotState::Sound(kind, header) => {
                        let count = &mut counts[kind as usize];
                        count.entries += 1;
                        count.bytes += header.log_bytes;
                        count.body_bytes += header.body_count * self.cx.shape.segment_bytes;
                        version = header.sequence.latest_version(version);
                        for body in header.bodies(&record) {
                            reach.others.insert(body.segment as u32);
                        }
                        if let Some(at) = self.cx.position_of(slot.offset()) {
                            self.note_parts(at, header.log_bytes, cause, reach);
                            if cause == Cause::Check {
                                reach.entries.insert((at.segment, at.byte), header.log_bytes);
                            }
                        }
                    }
                    // A death between copying a slot to its other bucket and clearing this one. As
                    // in a move, the state advances first: a reader that passed the other bucket
                    // before the copy must look again.
                    SlotState::Duplicate => {
                        self.set_word(shard::STATE, self.index_state().with_move().0);
                        self.store_slot(at, Slot::EMPTY);
                    }
                    SlotState::Damaged(why) => {
                        self.store_slot(at, Slot::EMPTY);
                        report.damaged_entries += 1;
                        self.count_lost(1, why, report);
                        self.list(report, format_args!("the entry at {}: {why}", slot.offset()));
                    }
                }
            }
        }
        self.set_word(shard::SEQUENCE, self.plausible_version(version, report));
        for count in &counts {
            report.entries += count.entries;
            report.entry_bytes += count.bytes + count.body_bytes;
        }
        counts
    }

    fn verify_slot(
        &self,
        bucket: u32,
        slot: Slot,
        cause: Cause,
        reach: &Reach,
        record: &mut Vec<u64>,
        value: &mut Vec<u8>,
    ) -> SlotState {
        let offset = slot.offset();
        let Some(position) = self.cx.position_of(offset) else {
            return SlotState::Damaged("its slot points outside the pool");
        };
        let Some((kind, from, to)) = reach.segments.get(&position.segment) else {
            return SlotState::Damaged("its slot points outside the logs");
        };
        if position.byte < *from || position.byte >= *to {
            return SlotState::Damaged("its slot points outside the records of its log");
        }
        // The entry was found in its own bucket before; no writer made this copy.
        if reach.entries.contains_key(&(position.segment, position.byte)) {
            return SlotState::Duplicate;
        }
        let Some(header) = self.load_record(offset, record) else {
            return SlotState::Damaged("its lengths are damaged");
        };
        if !self.is_within(position, &header, *kind, *to, reach) {
            return SlotState::Damaged("it extends beyond its log");
        }
        if header.sequence.is_busy() {
            return SlotState::Damaged("it is only partly written");
        }
        let hash = self.cx.hasher.key(header.key(record));
        if hash.shard(self.cx.shape.shard_count) != self.index || hash.tag() != slot.tag() {
            return SlotState::Damaged("its key does not match its slot");
        }
        let (first, second) = self.choices(hash);
        let is_in =
            |bucket| self.taken_slots(bucket).iter().any(|(_, other)| other.is_same_place(slot));
        if bucket != first {
            if is_in(first) || (bucket != second && is_in(second)) {
                return SlotState::Duplicate;
            }
            if bucket != second {
                return SlotState::Damaged("its slot is in the wrong bucket");
            }
        }
        let bodies_are_ours = header.bodies(record).all(|body| {
            self.cx.body_segment(body).is_some_and(|segment| self.is_unreached(segment, reach))
        });
        if !bodies_are_ours {
            return SlotState::Damaged("a segment of its value is missing");
        }
        if cause == Cause::Check {
            if self.valid_content(offset, &header, record, hash).is_none() {
                return SlotState::Damaged("its checksum does not match");
            }
            // Skipped if there is no memory for the value.
            if header.body_count > 0
                && lengthen(value, header.value_bytes as usize).is_ok()
                && !self.cx.load_bodies(&header, record, value)
            {
                return SlotState::Damaged("a segment of its value is damaged");
            }
        }
        SlotState::Sound(*kind, header)
    }

    /// Whether a record lies within the records of its segment and, if it crosses segments, within
    /// its log. Other segments are about to be freed, and bytes behind the log head to be
    /// overwritten.
    fn is_within(
        &self,
        position: Position,
        header: &RecordHeader,
        kind: LogKind,
        to: u64,
        reach: &Reach,
    ) -> bool {
        let log_bytes = self.cx.shape.log_bytes;
        if position.byte + header.log_bytes <= log_bytes {
            return position.byte + header.log_bytes <= to;
        }
        let has_space = |segment: u32, bytes: u64| {
            let reached = reach.segments.get(&segment);
            reached.is_some_and(|(its, _, end)| *its == kind && bytes <= *end)
        };
        let mut rest_bytes = header.log_bytes.saturating_sub(log_bytes - position.byte);
        let mut segment = position.segment;
        while rest_bytes > 0 {
            match self.cx.trailer(segment) {
                Some((next, _)) if has_space(next, rest_bytes.min(log_bytes)) => segment = next,
                _ => return false,
            }
            rest_bytes = rest_bytes.saturating_sub(log_bytes);
        }
        true
    }

    /// Notes an entry's parts in its segments. It was found to be within its log.
    fn note_parts(&self, at: Position, log_bytes: u64, cause: Cause, reach: &mut Reach) {
        let segment_bytes = self.cx.shape.log_bytes;
        let mut rest_bytes = log_bytes.saturating_sub(segment_bytes - at.byte);
        let mut segment = at.segment;
        loop {
            if let Some((_, found)) = reach.live.get_mut(&segment) {
                *found += 1;
            }
            if rest_bytes == 0 {
                return;
            }
            let Some((next, _)) = self.cx.trailer(segment) else { return };
            if cause == Cause::Check {
                reach.rests.insert(next, rest_bytes.min(segment_bytes));
            }
            rest_bytes = rest_bytes.saturating_sub(segment_bytes);
            segment = next;
        }
    }

    /// Writes down how many entries have a part in each segment.
    fn correct_live(&self, reach: &Reach, report: &mut CheckReport) {
        for (segment, (was, found)) in &reach.live {
            let before = self.arena().note(*segment, note::LIVE) & !note::LIVE_RECORDS;
            self.arena().set_note(*segment, note::LIVE, before | found);
            if was != found && *was < note::LIVE_UNKNOWN {
                report.wrong_counts += 1;
                self.list(
                    report,
                    format_args!(
                        "segment {segment} has parts of {found} entries; {was} were counted"
                    ),
                );
            }
        }
    }

    /// Walks every log segment from record to record, as eviction will. A dead record with damaged
    /// lengths would lead eviction past live entries, whose segment would then be freed. Such a
    /// record gets lengths that lead to the next entry.
    fn repair_dead_records(&self, reach: &Reach) {
        for (&segment, &(_, first, end)) in &reach.segments {
            // A damaged beginning must not lie within the rest of another record,
            let rest_bytes = reach.rests.get(&segment).copied().unwrap_or(0);
            let mut byte = first.max(rest_bytes);
            // nor so close to an entry that no dead record fits in between.
            let mut from_first = reach.entries.range((segment, byte)..(segment + 1, 0));
            let first_entry = from_first.next().map(|(at, _)| at.1);
            if let Some(entry) = first_entry.filter(|at| *at < byte + RecordHeader::BYTES_MIN) {
                byte = entry;
            }
            if byte != first {
                let extent = self.arena().note(segment, note::EXTENT) & 0xffff_ffff;
                self.arena().set_note(segment, note::EXTENT, byte << 32 | extent);
            }
            while byte < end {
                let position = Position { segment, byte };
                let mut from_here = reach.entries.range((segment, byte)..(segment + 1, 0));
                let next = from_here.next().map(|(at, log_bytes)| (at.1, *log_bytes));
                let target = next.map_or(end, |(at, _)| at);
                let after = match next {
                    Some((at, log_bytes)) if at == byte => self.end_of(position, log_bytes),
                    _ => self
                        .load_header(self.cx.offset_of(position))
                        .and_then(|header| self.end_of(position, header.log_bytes))
                        .filter(|after| match after.segment == segment {
                            // Not backwards, which a damaged trailer could cause, and not so close
                            // to the next entry that no dead record fits in between.
                            true => {
                                after.byte > byte
                                    && (after.byte == target
                                        || after.byte + RecordHeader::BYTES_MIN <= target)
                            }
                            false => {
                                let first = reach.segments.get(&after.segment).map(|at| at.1);
                                target == end && first == Some(after.byte)
                            }
                        }),
                };
                match after {
                    Some(after) if after.segment == segment => byte = after.byte,
                    // Continues in the next segment.
                    Some(_) => break,
                    None if self.write_dead_record(position, target) => byte = target,
                    None => break,
                }
            }
        }
    }

    /// Writes a record header without key and value that reaches up to `end`. False if none has
    /// that length.
    fn write_dead_record(&self, at: Position, end: u64) -> bool {
        let offset = self.cx.offset_of(at);
        if self.cx.position_of(offset).is_none() {
            return false;
        }
        let Some([sequence, lengths]) = RecordHeader::filler(end - at.byte) else { return false };
        self.region().store(offset, sequence, Ordering::Release);
        self.region().store(offset + 8, lengths, Ordering::Release);
        // No handle finds a replaced record there whose place it remembers.
        (at.byte + 16..end).step_by(8).for_each(|byte| {
            self.region().set(self.cx.offset_of(Position { byte, ..at }), 0);
        });
        true
    }

    fn drop_invalid_spares(&self, reach: &mut Reach) {
        for at in self.spare_words() {
            match segment_of(self.word(at)).filter(|one| self.is_unreached(*one, reach)) {
                Some(segment) => {
                    reach.others.insert(segment);
                    reach.spares += 1;
                }
                None => self.set_word(at, 0),
            }
        }
    }

    fn free_unreached(&self, reach: &Reach, report: &mut CheckReport) {
        // Beyond the file's end as this handle knows it, too: the dead owner may have grown the
        // file.
        for segment in self.arena().segments_of(Owner::Shard(self.index as u32)) {
            let is_known = segment < self.arena().segments_present();
            if reach.segments.contains_key(&segment)
                || reach.others.contains(&segment)
                || (tuckbox_arena::mutants::is_on("old-length") && !is_known)
            {
                // Damage may have marked it as free in the free map.
                self.arena().mark_taken(segment);
                continue;
            }
            let what = self.describe(segment);
            self.list(report, format_args!("segment {segment} was owned but not in use ({what})"));
            self.arena().free_segment(segment);
            report.leaked_segments += 1;
        }
        let hidden = self.arena().reveal_free_segments();
        if hidden > 0 {
            note_finding(report, format_args!("the free map hid {hidden} free segments"));
            report.leaked_segments += u64::from(hidden);
        }
    }

    /// What a segment's words say about its use, for whoever investigates a leak. They are of the
    /// last use that set them: no log sets a body's notes.
    fn describe(&self, segment: u32) -> String {
        let arena = self.arena();
        let generation = arena.generation(segment);
        let [next, extent, opened, live] =
            [note::NEXT, note::EXTENT, note::OPENED, note::LIVE].map(|at| arena.note(segment, at));
        let begins = if self.cx.is_usable(segment) {
            let first = self.region().view::<2>(arena.geometry().segment_at(segment)).words();
            format!("begins with {:#x} {:#x}", first[0], first[1])
        } else {
            "lies beyond the end of the file".into()
        };
        let present = arena.segments_present();
        format!(
            "generation {generation}, notes {next:#x} {extent:#x} {opened:#x} {live:#x}, {begins}; \
             the file has {present} segments"
        )
    }

    fn correct_counts(&self, counts: [Count; LogKind::COUNT], report: &mut CheckReport) {
        let mut bodies = 0;
        for kind in LogKind::ALL {
            let count = counts[kind as usize];
            bodies += count.body_bytes / self.cx.shape.segment_bytes;
            for (word, value) in [
                (log::ENTRIES, count.entries),
                (log::BYTES, count.bytes),
                (log::BODY_BYTES, count.body_bytes),
            ] {
                self.correct_count(kind.at() + word, value, report);
            }
        }
        self.correct_count(shard::BODY_SEGMENTS, bodies, report);
    }

    fn correct_count(&self, at: u64, value: u64, report: &mut CheckReport) {
        let was = self.word(at);
        if was != value {
            self.set_word(at, value);
            report.wrong_counts += 1;
            self.list(report, format_args!("the counter at {at} was {was} instead of {value}"));
        }
    }
}

/// The result of verifying a slot.
enum SlotState {
    Sound(LogKind, RecordHeader),
    Duplicate,
    Damaged(&'static str),
}
