#include "worker/ring/step_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>

#include "common/forked_child.h"
#include "worker/ring/ring_layout.h"

namespace paceline {
namespace {

class StepRingTest : public ::testing::Test {
 protected:
  const std::string path_ = ::testing::TempDir() + "/step_ring_test." + std::to_string(::getpid()) +
                            "." + ::testing::UnitTest::GetInstance()->current_test_info()->name();

  ~StepRingTest() override { ::unlink(path_.c_str()); }

  StepRingWriter CreateAndOpen(uint32_t capacity) {
    EXPECT_TRUE(CreateStepRing(path_, capacity).ok());
    return *StepRingWriter::Open(path_);
  }

  template <typename T>
  void Overwrite(size_t offset, T value) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(reinterpret_cast<const char*>(&value), sizeof(value));
  }
};

// Ends the step and appends its record, which is returned.
StepRecord Finish(StepRingWriter& writer, uint64_t step) {
  StepRecord record = writer.EndStep(step);
  record.samples = 10 * step;
  record.loss = static_cast<float>(step);
  writer.Append(record);
  return record;
}

void RunStep(StepRingWriter& writer, uint64_t step) {
  writer.Enter(Phase::kDataWait, step);
  writer.Enter(Phase::kForward, step);
  writer.Enter(Phase::kBackward, step);
  writer.Enter(Phase::kCommunication, step);
  writer.Enter(Phase::kOptimizer, step);
  writer.Enter(Phase::kAveraging, step);
  writer.Enter(Phase::kRoundWait, step);
  Finish(writer, step);
}

TEST_F(StepRingTest, NewRingIsIdleAndEmpty) {
  ASSERT_TRUE(CreateStepRing(path_, 4).ok());
  const auto reader = StepRingReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->Live().phase, Phase::kIdle);
  EXPECT_EQ(reader->Written(), 0);
  const auto batch = reader->ReadFrom(0);
  EXPECT_TRUE(batch.records.empty());
  EXPECT_EQ(batch.next, 0);
}

TEST_F(StepRingTest, LiveTellsPhaseStepAndSince) {
  StepRingWriter writer = CreateAndOpen(4);
  const auto reader = StepRingReader::Open(path_);
  const uint64_t before = MonotonicNanos();
  writer.Enter(Phase::kDataWait, 7);
  writer.Enter(Phase::kCommunication, 7);
  const uint64_t after = MonotonicNanos();
  const LivePhase live = reader->Live();
  EXPECT_EQ(live.phase, Phase::kCommunication);
  EXPECT_EQ(live.step, 7);
  EXPECT_GE(live.since_ns, before);
  EXPECT_LE(live.since_ns, after);
  Finish(writer, 7);
  EXPECT_EQ(reader->Live().phase, Phase::kIdle);
  EXPECT_EQ(reader->Live().step, 8);
}

TEST_F(StepRingTest, LiveTellsHowFarAnEvaluationIs) {
  StepRingWriter writer = CreateAndOpen(4);
  const auto reader = StepRingReader::Open(path_);
  writer.Enter(Phase::kCommunication, 8);  // It is cut off, and the evaluation before is repeated.
  writer.ShowEvaluation(8, 0, 400);
  const uint64_t since_ns = reader->Live().since_ns;
  writer.ShowEvaluation(8, 120, 400);
  const LivePhase live = reader->Live();
  EXPECT_EQ(live.phase, Phase::kEvaluating);
  EXPECT_EQ(live.step, 8);
  EXPECT_EQ(live.since_ns, since_ns);
  EXPECT_EQ(live.done, 120);
  EXPECT_EQ(live.all, 400);
  writer.Enter(Phase::kIdle, 8);
  EXPECT_EQ(reader->Live().phase, Phase::kIdle);
  EXPECT_EQ(reader->Live().all, 0);
  RunStep(writer, 8);
  const StepRecord record = reader->ReadFrom(0).records.at(0);
  EXPECT_GE(record.start_ns, since_ns);
  EXPECT_EQ(std::accumulate(record.phase_ns.begin(), record.phase_ns.end(), uint64_t{0}),
            record.total_ns)
      << "the evaluation belongs to no step";
}

TEST_F(StepRingTest, PhasesOfAStepAddUpToItsWhole) {
  StepRingWriter writer = CreateAndOpen(4);
  const uint64_t before = MonotonicNanos();
  writer.Enter(Phase::kIdle, 3);
  writer.Enter(Phase::kForward, 3);
  writer.Enter(Phase::kIdle, 3);
  writer.Enter(Phase::kForward, 3);
  while (MonotonicNanos() < before + 100'000) {
  }
  Finish(writer, 3);
  const auto batch = StepRingReader::Open(path_)->ReadFrom(0);
  ASSERT_EQ(batch.records.size(), 1);
  const StepRecord& record = batch.records[0];
  EXPECT_EQ(record.step, 3);
  EXPECT_EQ(record.samples, 30);
  EXPECT_EQ(record.loss, 3.0f);
  EXPECT_GE(record.start_ns, before);
  EXPECT_GT(record.phase_ns[static_cast<int>(Phase::kForward)], 0);
  EXPECT_GT(record.phase_ns[static_cast<int>(Phase::kIdle)], 0);
  EXPECT_EQ(record.phase_ns[static_cast<int>(Phase::kBackward)], 0);
  EXPECT_EQ(std::accumulate(record.phase_ns.begin(), record.phase_ns.end(), uint64_t{0}),
            record.total_ns);
}

TEST_F(StepRingTest, EveryFieldOfARecordArrives) {
  StepRingWriter writer = CreateAndOpen(2);
  StepRecord record;
  record.step = 1;
  record.start_ns = 2;
  record.total_ns = 3;
  std::iota(record.phase_ns.begin(), record.phase_ns.end(), uint64_t{4});
  record.samples = 20;
  record.tokens = 21;
  record.wire_bytes = uint64_t{1} << 40;
  record.averaging_group_size = 8;
  record.workload = 1e300;
  record.loss = -1.5f;
  record.grad_norm = 2.5f;
  record.learning_rate = 1e-4f;
  record.masked = true;
  writer.Append(record);
  const auto records = StepRingReader::Open(path_)->ReadFrom(0).records;
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(records[0].step, 1);
  EXPECT_EQ(records[0].start_ns, 2);
  EXPECT_EQ(records[0].total_ns, 3);
  EXPECT_EQ(records[0].phase_ns, record.phase_ns);
  EXPECT_EQ(records[0].samples, 20);
  EXPECT_EQ(records[0].tokens, 21);
  EXPECT_EQ(records[0].wire_bytes, uint64_t{1} << 40);
  EXPECT_EQ(records[0].averaging_group_size, 8);
  EXPECT_EQ(records[0].workload, 1e300);
  EXPECT_EQ(records[0].loss, -1.5f);
  EXPECT_EQ(records[0].grad_norm, 2.5f);
  EXPECT_EQ(records[0].learning_rate, 1e-4f);
  EXPECT_TRUE(records[0].masked);
}

TEST_F(StepRingTest, IdleBetweenStepsBelongsToNone) {
  StepRingWriter writer = CreateAndOpen(4);
  RunStep(writer, 0);
  writer.Enter(Phase::kIdle, 1);
  writer.Enter(Phase::kDataWait, 1);
  Finish(writer, 1);
  const auto records = StepRingReader::Open(path_)->ReadFrom(0).records;
  ASSERT_EQ(records.size(), 2);
  EXPECT_EQ(records[1].phase_ns[static_cast<int>(Phase::kIdle)], 0);
}

TEST_F(StepRingTest, ReaderGoesOnWhereItStoppedAndCountsWhatItMissed) {
  StepRingWriter writer = CreateAndOpen(4);
  const auto reader = StepRingReader::Open(path_);
  for (uint64_t step = 0; step < 3; ++step) RunStep(writer, step);
  auto batch = reader->ReadFrom(0);
  EXPECT_EQ(batch.records.size(), 3);
  EXPECT_EQ(batch.lost, 0);
  EXPECT_EQ(batch.next, 3);
  for (uint64_t step = 3; step < 10; ++step) RunStep(writer, step);
  batch = reader->ReadFrom(batch.next);
  ASSERT_EQ(batch.records.size(), 4);
  EXPECT_EQ(batch.records.front().step, 6);
  EXPECT_EQ(batch.records.back().step, 9);
  EXPECT_EQ(batch.lost, 3);
  EXPECT_EQ(batch.next, 10);
}

TEST_F(StepRingTest, NewWriterGoesOnAfterTheOldOne) {
  {
    StepRingWriter first = CreateAndOpen(4);
    RunStep(first, 0);
  }
  StepRingWriter second = *StepRingWriter::Open(path_);
  RunStep(second, 1);
  const auto reader = StepRingReader::Open(path_);
  EXPECT_EQ(reader->Live().step, 2);
  EXPECT_EQ(reader->ReadFrom(0).records.size(), 2);
}

TEST_F(StepRingTest, WriterKilledInTheMiddleOfAChangeLeavesThePhaseBefore) {
  {
    StepRingWriter writer = CreateAndOpen(4);
    writer.Enter(Phase::kForward, 5);   // Change 1.
    writer.Enter(Phase::kBackward, 5);  // Change 2, cell 0.
  }
  // Change 3 goes to cell 1 and was cut short.
  Overwrite<uint64_t>(offsetof(ring_layout::Ring, live[1]), 5);
  const auto reader = StepRingReader::Open(path_);
  EXPECT_EQ(reader->Live().phase, Phase::kBackward);
  StepRingWriter next = *StepRingWriter::Open(path_);
  next.Enter(Phase::kOptimizer, 6);
  EXPECT_EQ(reader->Live().phase, Phase::kOptimizer);
}

TEST_F(StepRingTest, DamagedLiveCellsReadAsIdle) {
  ASSERT_TRUE(CreateStepRing(path_, 4).ok());
  Overwrite<uint64_t>(offsetof(ring_layout::Ring, live[0]), 1);
  Overwrite<uint64_t>(offsetof(ring_layout::Ring, live[1]), 3);
  EXPECT_EQ(StepRingReader::Open(path_)->Live().phase, Phase::kIdle);
}

TEST_F(StepRingTest, UnknownPhaseReadsAsIdle) {
  { CreateAndOpen(4).Enter(Phase::kForward, 2); }
  Overwrite<uint64_t>(offsetof(ring_layout::Ring, live[1].step_and_phase), 2 << 8 | 77);
  EXPECT_EQ(StepRingReader::Open(path_)->Live().phase, Phase::kIdle);
}

// Each word of a record and of a live phase is a function of its step, so a mixture of two
// shows.
TEST_F(StepRingTest, ReaderNeverSeesATornRecord) {
  StepRingWriter writer = CreateAndOpen(2);
  const auto reader = StepRingReader::Open(path_);
  std::atomic<bool> stop{false};
  std::thread training([&] {
    for (uint64_t step = 1; !stop; ++step) RunStep(writer, step);
  });
  uint64_t next = 0;
  uint64_t seen = 0;
  uint64_t accounted = 0;
  uint64_t last_step = 0;
  uint64_t last_since = 0;
  while (seen < 5000) {
    const auto batch = reader->ReadFrom(next);
    accounted += batch.records.size() + batch.lost;
    next = batch.next;
    for (const StepRecord& record : batch.records) {
      EXPECT_GT(record.step, last_step);
      last_step = record.step;
      EXPECT_EQ(record.samples, 10 * record.step);
      EXPECT_EQ(record.loss, static_cast<float>(record.step));
      EXPECT_EQ(std::accumulate(record.phase_ns.begin(), record.phase_ns.end(), uint64_t{0}),
                record.total_ns);
    }
    seen += batch.records.size();
    const LivePhase live = reader->Live();
    EXPECT_GE(live.since_ns, last_since);
    last_since = live.since_ns;
    if (::testing::Test::HasFailure()) break;
  }
  stop = true;
  training.join();
  EXPECT_EQ(accounted, next);
}

// As a watched script writes it (python/paceline/_ring.py), while it is read.
TEST_F(StepRingTest, ReadsWhatPythonWrites) {
  ASSERT_TRUE(CreateStepRing(path_, 8).ok());
  const auto reader = StepRingReader::Open(path_);
  constexpr char kProgram[] = R"(
import sys
from paceline._ring import Ring, map_ring
ring = Ring()
ring.write_to(map_ring(sys.argv[1]))
for ring.step in range(10000):
  ring.show(5, 7 * ring.step)
  ring.append((ring.step, 100, 36, 1, 2, 3, 4, 5, 6, 7, 8, 10 * ring.step, 11, 12, 13, .5,
               ring.step, ring.step + 1, .25, ring.step % 2))
)";
  FILE* python = ::popen(
      ("PYTHONPATH=python python3 -B -c '" + std::string(kProgram) + "' " + path_).c_str(), "r");
  ASSERT_NE(python, nullptr);
  pollfd end = {::fileno(python), POLLIN, 0};
  bool ended = false;
  uint64_t next = 0;
  while (!ended) {
    ended = ::poll(&end, 1, 0) != 0;
    const LivePhase live = reader->Live();
    EXPECT_EQ(live.since_ns, 7 * live.step);
    const auto batch = reader->ReadFrom(next);
    next = batch.next;
    for (const StepRecord& record : batch.records) {
      EXPECT_EQ(record.samples, 10 * record.step);
      EXPECT_EQ(record.loss, static_cast<float>(record.step));
      EXPECT_EQ(record.grad_norm, static_cast<float>(record.step + 1));
      EXPECT_EQ(record.masked, record.step % 2 == 1);
      EXPECT_THAT(record.phase_ns, ::testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
      EXPECT_EQ(record.start_ns, 100);
      EXPECT_EQ(record.total_ns, 36);
      EXPECT_EQ(record.tokens, 11);
      EXPECT_EQ(record.wire_bytes, 12);
      EXPECT_EQ(record.averaging_group_size, 13);
      EXPECT_EQ(record.workload, .5);
      EXPECT_EQ(record.learning_rate, .25f);
    }
  }
  EXPECT_EQ(::pclose(python), 0);
  EXPECT_EQ(next, 10000);
  EXPECT_EQ(reader->Live().phase, Phase::kOptimizer);
  EXPECT_EQ(reader->Live().step, 9999);
}

TEST_F(StepRingTest, MissingFileIsNotFound) {
  EXPECT_EQ(StepRingReader::Open(path_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(StepRingWriter::Open(path_).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(StepRingTest, RefusesWhatIsNoRing) {
  std::ofstream(path_) << std::string(4096, 'x');
  EXPECT_EQ(StepRingReader::Open(path_).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(StepRingWriter::Open(path_).status().code(), absl::StatusCode::kFailedPrecondition);
  std::ofstream(path_) << "short";
  EXPECT_EQ(StepRingReader::Open(path_).status().code(), absl::StatusCode::kFailedPrecondition);
  std::ofstream(path_, std::ios::trunc).flush();
  EXPECT_EQ(StepRingReader::Open(path_).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(StepRingTest, RefusesAnotherLayoutVersion) {
  ASSERT_TRUE(CreateStepRing(path_, 4).ok());
  Overwrite<uint32_t>(offsetof(ring_layout::Header, version), 9);
  const absl::Status status = StepRingReader::Open(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("version 9"));
}

TEST_F(StepRingTest, TruncatedRingIsDataLoss) {
  ASSERT_TRUE(CreateStepRing(path_, 4).ok());
  ASSERT_EQ(::truncate(path_.c_str(), 300), 0);
  EXPECT_EQ(StepRingReader::Open(path_).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(StepRingWriter::Open(path_).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(StepRingTest, HeaderThatContradictsTheSizeIsDataLoss) {
  ASSERT_TRUE(CreateStepRing(path_, 4).ok());
  Overwrite<uint32_t>(offsetof(ring_layout::Header, capacity), 5);
  EXPECT_EQ(StepRingReader::Open(path_).status().code(), absl::StatusCode::kDataLoss);
  Overwrite<uint32_t>(offsetof(ring_layout::Header, capacity), 0);
  EXPECT_EQ(StepRingReader::Open(path_).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(StepRingTest, HeaderThatChangesUnderTheReaderIsNotBelieved) {
  StepRingWriter writer = CreateAndOpen(4);
  for (uint64_t step = 0; step < 6; ++step) RunStep(writer, step);
  const auto reader = StepRingReader::Open(path_);
  for (const uint32_t capacity : {0u, 1'000'000u}) {
    Overwrite<uint32_t>(offsetof(ring_layout::Header, capacity), capacity);
    const auto batch = reader->ReadFrom(0);
    EXPECT_EQ(batch.records.size(), 4) << capacity;
    EXPECT_EQ(batch.lost, 2) << capacity;
  }
}

TEST_F(StepRingTest, NumberOfRecordsThatNobodyCanHaveWrittenIsNotBelieved) {
  StepRingWriter writer = CreateAndOpen(4);
  RunStep(writer, 0);
  const auto reader = StepRingReader::Open(path_);
  for (const uint64_t written : {~uint64_t{0}, StepRingReader::kMaxAhead + 1}) {
    Overwrite<uint64_t>(offsetof(ring_layout::Header, written), written);
    const auto batch = reader->ReadFrom(0);
    EXPECT_EQ(batch.next, 0) << written;
    EXPECT_EQ(batch.lost, 0) << written;
    EXPECT_TRUE(batch.records.empty()) << written;
  }
}

TEST_F(StepRingTest, FileThatIsCutShortReadsAsAtRest) {
  StepRingWriter writer = CreateAndOpen(64);
  writer.Enter(Phase::kForward, 3);
  const auto reader = StepRingReader::Open(path_);
  ASSERT_EQ(reader->Live().phase, Phase::kForward);
  ASSERT_EQ(::truncate(path_.c_str(), 0), 0);
  EXPECT_EQ(reader->Live().phase, Phase::kIdle);
  EXPECT_EQ(reader->Written(), 0);
  EXPECT_TRUE(reader->ReadFrom(0).records.empty());
}

TEST_F(StepRingTest, CountsCollectivesOfSeveralThreads) {
  StepRingWriter writer = CreateAndOpen(4);
  const auto reader = StepRingReader::Open(path_);
  EXPECT_EQ(reader->Collectives(), 0) << "a trainer that does not count leaves it so";
  writer.ResetCollectives();
  std::thread other([&] {
    for (int i = 0; i < 1000; ++i) writer.CountCollective();
  });
  for (int i = 0; i < 1000; ++i) writer.CountCollective();
  other.join();
  RunStep(writer, 0);
  EXPECT_EQ(reader->Collectives(), 2001);
  writer.ResetCollectives();
  EXPECT_EQ(reader->Collectives(), 1);
}

TEST_F(StepRingTest, AForkedChildWritesNothing) {
  WatchForks();
  StepRingWriter writer = CreateAndOpen(4);
  writer.Enter(Phase::kForward, 0);
  const pid_t child = ::fork();
  if (child == 0) {
    RunStep(writer, 7);
    writer.ShowEvaluation(8, 1, 2);
    writer.CountCollective();
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  const auto reader = StepRingReader::Open(path_);
  EXPECT_EQ(reader->Written(), 0);
  EXPECT_EQ(reader->Live().phase, Phase::kForward);
  EXPECT_EQ(reader->Live().step, 0);
  EXPECT_EQ(reader->Collectives(), 0);
  Finish(writer, 0);
  EXPECT_EQ(reader->Written(), 1);
}

TEST_F(StepRingTest, CreatingAnewDoesNotTouchTheOldFile) {
  StepRingWriter writer = CreateAndOpen(4);
  const auto old_reader = StepRingReader::Open(path_);
  ASSERT_TRUE(CreateStepRing(path_, 2).ok());
  RunStep(writer, 0);
  EXPECT_EQ(old_reader->Written(), 1);
  EXPECT_EQ(StepRingReader::Open(path_)->Written(), 0);
}

TEST_F(StepRingTest, CreateTellsWhatFailed) {
  EXPECT_EQ(CreateStepRing("/nonexistent/ring", 1).code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace paceline
