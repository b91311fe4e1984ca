#include "worker/trainer/testing/recovery_test.h"

#include <google/protobuf/text_format.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "worker/ring/step_ring.h"

namespace paceline {
namespace {

std::string Bytes(const std::string& path) {
  std::ostringstream text;
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

v1::JobSpec RecoveryTest::RecoveringSpec(int ranks, const std::string& name,
                                         const std::string& changes, int spares) const {
  std::filesystem::create_directories(absl::StrCat(directory_, "/", name));
  v1::JobSpec spec =
      Spec(ranks, absl::StrCat("steps: 200 recovery { max_failures: 10 spares: ", spares,
                               " } collective_timeout_s: 30 startup_timeout_s: 90 export_final: '",
                               directory_, "/", name, "/final.safetensors' "));
  v1::JobSpec more;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(changes, &more)) << changes;
  spec.MergeFrom(more);
  std::filesystem::remove(Released());
  spec.set_allow_chaos(true);
  v1::Fault* crawl = spec.add_chaos();
  crawl->set_rank(-1);
  crawl->set_kind(v1::SLEEP);
  crawl->set_step(spec.steps() - spec.steps() / 2);
  crawl->set_steps(spec.steps());
  crawl->set_seconds(0.3);
  crawl->set_until_file(Released());
  return spec;
}

v1::JobSpec RecoveryTest::EvenSpec(int ranks, const std::string& name, const std::string& changes,
                                   int spares) const {
  v1::JobSpec spec = RecoveringSpec(ranks, name, changes, spares);
  v1::Fault& pace = *spec.mutable_chaos()->rbegin();
  pace.set_step(0);
  pace.set_seconds(0.03);
  return spec;
}

std::string RecoveryTest::Released() const { return directory_ + "/released"; }

void RecoveryTest::Release() const { EXPECT_TRUE(std::ofstream(Released()).good()); }

std::unique_ptr<FakeDaemon> RecoveryTest::RunUndisturbed(int ranks, const std::string& changes) {
  v1::JobSpec spec = RecoveringSpec(ranks, "undisturbed", changes);
  spec.clear_chaos();
  return RunJob(spec);
}

void RecoveryTest::WaitUntilReady(FakeDaemon& daemon, int number) {
  ASSERT_TRUE(daemon.Serve([&] { return daemon.status(number).state() == v1::TRAINER_READY; }))
      << daemon.Log(number);
}

void RecoveryTest::WaitForSteps(FakeDaemon& daemon, int number, uint64_t steps) {
  ASSERT_TRUE(daemon.Serve([&] { return daemon.status(number).state() == v1::TRAINER_RUNNING; }));
  absl::StatusOr<StepRingReader> ring = StepRingReader::Open(daemon.RingPath(number));
  ASSERT_TRUE(ring.ok()) << ring.status();
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (ring->Written() < steps && absl::Now() < deadline) absl::SleepFor(absl::Microseconds(50));
  ASSERT_GE(ring->Written(), steps);
}

void RecoveryTest::WaitUntilRendezvous(FakeDaemon& daemon) {
  ASSERT_TRUE(daemon.Serve([&] { return daemon.RendezvousDone(); }));
}

void RecoveryTest::WaitForSuccess(FakeDaemon& daemon, const std::vector<int>& numbers) const {
  Release();
  for (const int number : numbers) {
    ASSERT_TRUE(daemon.Serve([&] { return daemon.ended(number); })) << daemon.Log(number);
    EXPECT_EQ(daemon.exit_code(number), 0) << daemon.Log(number);
  }
}

void RecoveryTest::WaitForEnd(FakeDaemon& daemon, int number) {
  ASSERT_TRUE(daemon.Serve([&] { return daemon.ended(number); })) << daemon.Log(number);
}

std::map<int64_t, std::string> RecoveryTest::Losses(const FakeDaemon& daemon, int number) {
  std::map<int64_t, std::string> losses;
  const std::string log = daemon.Log(number);
  const std::regex line(" I step=(\\d+) loss=(\\S+) ");  // Not of evaluations.
  for (auto i = std::sregex_iterator(log.begin(), log.end(), line); i != std::sregex_iterator();
       ++i) {
    const bool is_new = losses.emplace(std::stoll((*i)[1]), (*i)[2]).second;
    EXPECT_TRUE(is_new) << "step " << (*i)[1] << " was done twice by trainer " << number;
  }
  return losses;
}

void RecoveryTest::ExpectSame(const FakeDaemon& undisturbed, const FakeDaemon& daemon,
                              const std::vector<int>& numbers, const std::string& name,
                              int exporting) const {
  for (size_t rank = 0; rank < numbers.size(); ++rank) {
    if (numbers[rank] < 0) continue;
    const std::map<int64_t, std::string> all = Losses(undisturbed, static_cast<int>(rank));
    std::map<int64_t, std::string> own = Losses(daemon, numbers[rank]);
    ASSERT_FALSE(own.empty()) << daemon.Log(numbers[rank]);
    EXPECT_EQ(own, (std::map<int64_t, std::string>(all.find(own.begin()->first), all.end())))
        << "rank " << rank;
    if (rank % static_cast<size_t>(exporting) != 0) continue;
    const std::string file = absl::StrCat("/final.rank", rank, ".safetensors");
    EXPECT_TRUE(Bytes(absl::StrCat(directory_, "/", name, file)) ==
                Bytes(absl::StrCat(directory_, "/undisturbed", file)))
        << "parameters of rank " << rank;
  }
}

}  // namespace paceline
