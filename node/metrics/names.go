package metrics

import (
	"ringmq/netio"
	"ringmq/store"
	"ringmq/uring/hist"
)

type (
	netStats   = netio.Stats
	storeStats = store.Stats
	marks      = store.Marks
)

var netRows = []row[netStats]{
	{"ringmq_net_connections", "", gauge, func(s *netStats) int64 { return s.Conns }},
	{"ringmq_net_accepted_total", "", counter, func(s *netStats) int64 { return s.Accepted }},
	{"ringmq_net_refused_total", "", counter, func(s *netStats) int64 { return s.Refused }},
	{"ringmq_net_accept_errors_total", "", counter, func(s *netStats) int64 { return s.AcceptErrors }},
	{"ringmq_net_in_bytes_total", "", counter, func(s *netStats) int64 { return s.BytesIn }},
	{"ringmq_net_out_bytes_total", "", counter, func(s *netStats) int64 { return s.BytesOut }},
	{"ringmq_net_out_file_bytes_total", `by="mapping"`, counter, func(s *netStats) int64 { return s.MappedOut }},
	{"ringmq_net_out_file_bytes_total", `by="sendfile"`, counter, func(s *netStats) int64 { return s.FilesOut }},
	{"ringmq_net_out_file_bytes_total", `by="copy"`, counter, func(s *netStats) int64 { return s.CopiedOut }},
	{"ringmq_net_requests_total", "", counter, func(s *netStats) int64 { return s.Requests }},
	{"ringmq_net_stray_answers_total", "", counter, func(s *netStats) int64 { return s.StrayAnswers }},
	{"ringmq_net_busy_answers_total", "", counter, func(s *netStats) int64 { return s.BusyAnswers }},
	{"ringmq_net_overdue_answers_total", "", counter, func(s *netStats) int64 { return s.OverdueAnswers }},
	{"ringmq_net_failed_answers_total", "", counter, func(s *netStats) int64 { return s.FailedAnswers }},
	{"ringmq_net_closed_total", `reason="garbled"`, counter, func(s *netStats) int64 { return s.ClosedGarbled }},
	{"ringmq_net_closed_total", `reason="silent"`, counter, func(s *netStats) int64 { return s.ClosedSilent }},
	{"ringmq_net_closed_total", `reason="idle"`, counter, func(s *netStats) int64 { return s.ClosedIdle }},
	{"ringmq_net_closed_total", `reason="stalled"`, counter, func(s *netStats) int64 { return s.ClosedStalled }},
	{"ringmq_net_closed_total", `reason="in_full"`, counter, func(s *netStats) int64 { return s.ClosedInFull }},
	{"ringmq_net_closed_total", `reason="out_full"`, counter, func(s *netStats) int64 { return s.ClosedOutFull }},
	{"ringmq_net_closed_total", `reason="unreadable"`, counter, func(s *netStats) int64 { return s.ClosedUnread }},
	{"ringmq_net_closed_total", `reason="owner"`, counter, func(s *netStats) int64 { return s.ClosedByOwner }},
	{"ringmq_net_closed_total", `reason="peer"`, counter, func(s *netStats) int64 { return s.ClosedByPeer }},
	{"ringmq_net_closed_total", `reason="server"`, counter, func(s *netStats) int64 { return s.ClosedByServer }},
	{"ringmq_net_buffered_in_bytes", "", gauge, func(s *netStats) int64 { return s.InBytes }},
	{"ringmq_net_buffered_out_bytes", "", gauge, func(s *netStats) int64 { return s.OutBytes }},
	{"ringmq_net_queued_bytes", "", gauge, func(s *netStats) int64 { return s.Queued }},
	{"ringmq_net_owed_answers", "", gauge, func(s *netStats) int64 { return s.Owed }},
	{"ringmq_net_held_connections", "", gauge, func(s *netStats) int64 { return s.Held }},
}

// Names that begin with rocketmq_ are the stock broker's: the first two there by topic, here as their sums; the
// last two as there, what is used of the disk and the age of the oldest message in ms.
var storeRows = []row[storeStats]{
	{"rocketmq_messages_in_total", "", counter, func(s *storeStats) int64 { return s.Appended }},
	{"rocketmq_throughput_in_total", "", counter, func(s *storeStats) int64 { return s.AppendedBytes }},
	{"ringmq_store_refused_total", "", counter, func(s *storeStats) int64 { return s.Busy }},
	{"ringmq_store_writes_total", "", counter, func(s *storeStats) int64 { return s.Writes }},
	{"ringmq_store_flushes_total", "", counter, func(s *storeStats) int64 { return s.Flushes }},
	{"ringmq_store_flushed_total", `engine="inline"`, counter, func(s *storeStats) int64 { return s.FlushedInline }},
	{"ringmq_store_flushed_total", `engine="io_uring"`, counter, func(s *storeStats) int64 { return s.FlushedByRing }},
	{"ringmq_store_flushed_total", `engine="posix"`, counter, func(s *storeStats) int64 { return s.FlushedByCall }},
	{"ringmq_store_segments_total", "", counter, func(s *storeStats) int64 { return s.Segments }},
	{"ringmq_store_segments_recycled_total", "", counter, func(s *storeStats) int64 { return s.Recycled }},
	{"ringmq_store_mapped_bytes", "", gauge, func(s *storeStats) int64 { return s.MappedBytes }},
	{"ringmq_store_staged_bytes", "", gauge, func(s *storeStats) int64 { return s.StagedBytes }},
	{"ringmq_store_staging_bytes", "", gauge, func(s *storeStats) int64 { return s.StagingBytes }},
	{"ringmq_store_failed", "", gauge, func(s *storeStats) int64 { return s.Failed }},
	{"ringmq_store_ring", "", gauge, func(s *storeStats) int64 { return s.Ring }},
	{"ringmq_store_waiting_queue_bytes", "", gauge, func(s *storeStats) int64 { return s.WaitingBytes }},
	{"ringmq_store_cold_reads_total", "", counter, func(s *storeStats) int64 { return s.ColdReads }},
	{"ringmq_store_cold_bytes_total", "", counter, func(s *storeStats) int64 { return s.ColdBytes }},
	{"ringmq_store_cold_ahead_total", "", counter, func(s *storeStats) int64 { return s.ColdAhead }},
	{"ringmq_store_cold_buffered_total", "", counter, func(s *storeStats) int64 { return s.ColdBuffered }},
	{"ringmq_store_cold_failed_total", "", counter, func(s *storeStats) int64 { return s.ColdFailed }},
	{"ringmq_store_cold_found_total", "", counter, func(s *storeStats) int64 { return s.ColdFound }},
	{"ringmq_store_cold_waits_total", "", counter, func(s *storeStats) int64 { return s.ColdWaits }},
	{"ringmq_store_cold_copied_bytes_total", "", counter, func(s *storeStats) int64 { return s.ColdCopied }},
	{"ringmq_store_cold_held_bytes", "", gauge, func(s *storeStats) int64 { return s.ColdHeld }},
	{"ringmq_store_checkpoint_offset", "", gauge, func(s *storeStats) int64 { return s.Checkpoint }},
	{"ringmq_store_recovered_from_offset", "", gauge, func(s *storeStats) int64 { return s.Recovered.From }},
	{"ringmq_store_recovered_records", "", gauge, func(s *storeStats) int64 { return s.Recovered.Records }},
	{"ringmq_store_recovery_cut_bytes", "", gauge, func(s *storeStats) int64 { return s.Recovered.CutBytes }},
	{"ringmq_store_recovery_cut_valid_records", "", gauge, func(s *storeStats) int64 { return int64(s.Recovered.CutValid) }},
	{"ringmq_store_clock_back_ms", "", gauge, func(s *storeStats) int64 { return s.ClockBackMs }},
	{"ringmq_store_indexed_offset", "", gauge, func(s *storeStats) int64 { return s.Indexed }},
	{"ringmq_store_min_offset", "", gauge, func(s *storeStats) int64 { return s.MinOffset }},
	{"ringmq_store_log_bytes", "", gauge, func(s *storeStats) int64 { return s.LogBytes }},
	{"ringmq_store_removed_segments_total", "", counter, func(s *storeStats) int64 { return s.SegmentsRemoved }},
	{"ringmq_store_removed_segments_forced_total", "", counter, func(s *storeStats) int64 { return s.SegmentsForced }},
	{"ringmq_store_removed_queue_files_total", "", counter, func(s *storeStats) int64 { return s.QueueFilesRemoved }},
	{"ringmq_store_disk_free_bytes", "", gauge, func(s *storeStats) int64 { return s.DiskFreeBytes }},
	{"ringmq_store_disk_used_percent", "", gauge, func(s *storeStats) int64 { return s.DiskUsedPercent }},
	{"ringmq_store_refusing", "", gauge, func(s *storeStats) int64 { return s.Refusing }},
	{"rocketmq_storage_size", "", gauge, func(s *storeStats) int64 { return s.DiskUsedBytes }},
	{"rocketmq_storage_message_reserve_time", "", gauge, func(s *storeStats) int64 { return s.OldestAgeMs }},
}

// Times are counted in µs and shown in seconds, as is usual.
var storeHists = []histRow[storeStats]{
	{"ringmq_store_stage_seconds", `stage="staged"`, 1e-6, func(s *storeStats) *hist.Snapshot { return &s.StagedTimes }},
	{"ringmq_store_stage_seconds", `stage="write"`, 1e-6, func(s *storeStats) *hist.Snapshot { return &s.WriteTimes }},
	{"ringmq_store_stage_seconds", `stage="flush"`, 1e-6, func(s *storeStats) *hist.Snapshot { return &s.FlushTimes }},
	{"ringmq_store_flush_bytes", "", 1, func(s *storeStats) *hist.Snapshot { return &s.FlushBytes }},
	{"ringmq_store_prepare_seconds", "", 1e-6, func(s *storeStats) *hist.Snapshot { return &s.PrepareTimes }},
}

var netHists = []histRow[netStats]{
	{"ringmq_net_turn_seconds", "", 1e-6, func(s *netStats) *hist.Snapshot { return &s.TurnTimes }},
	{"ringmq_net_owed_seconds", "", 1e-6, func(s *netStats) *hist.Snapshot { return &s.OweTimes }},
}

// The first two are the stock broker's.
var markRows = []row[marks]{
	{"rocketmq_storage_flush_behind_bytes", "", gauge, func(m *marks) int64 { return m.Written - m.Durable }},
	{"rocketmq_storage_dispatch_behind_bytes", "", gauge, func(m *marks) int64 { return m.Written - m.Visible }},
	{"ringmq_store_written_offset", "", gauge, func(m *marks) int64 { return m.Written }},
	{"ringmq_store_durable_offset", "", gauge, func(m *marks) int64 { return m.Durable }},
	{"ringmq_store_visible_offset", "", gauge, func(m *marks) int64 { return m.Visible }},
}
