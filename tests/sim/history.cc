#include "tests/sim/history.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "tests/sim/copy_judge.h"
#include "tests/sim/elastic_judge.h"
#include "tests/sim/faults.h"
#include "tests/sim/node_requests.h"
#include "tests/sim/observer.h"
#include "tests/sim/replica_judge.h"
#include "tests/sim/requests.h"
#include "tests/sim/sim_controller.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/straggler_faults.h"
#include "tests/sim/straggler_judge.h"
#include "tests/sim/straggler_requests.h"
#include "tests/sim/training.h"
#include "tests/sim/world.h"

namespace paceline::sim {
namespace {

// A history with more events makes no progress.
constexpr int64_t kMaxEvents = 1000000;
// Time after the end of all jobs for the rest to be cleaned up.
constexpr Micros kTidyUp = 120 * kSecond;

// Runs the world until all jobs have ended, or an invariant does not hold.
Outcome Play(World& world) {
  Micros end = world.settings.end;
  bool over = false;
  while (!world.trace.failure().has_value() && world.time.RunNext(end)) {
    if (world.time.events() > kMaxEvents) {
      world.trace.Fail("more than ", kMaxEvents, " events: something happens again and again");
    }
    if (over || world.time.now() < world.settings.quiet || !world.controller->is_up()) continue;
    over = world.observer->IsOver(world.controller->cluster());
    if (over) end = std::min(end, world.time.now() + kTidyUp);
  }
  if (!world.trace.failure().has_value()) world.observer->CheckEnd();
  Outcome outcome;
  outcome.failure = world.trace.failure().value_or("");
  outcome.events = world.trace.lines();
  outcome.coverage = world.coverage.counts();
  outcome.steps = world.time.events();
  outcome.seconds = static_cast<double>(world.time.now()) / kSecond;
  return outcome;
}

// The seed's settings, except that nothing breaks and no job blocks another.
Settings WithoutFaults(const Settings& drawn) {
  Settings s;
  s.nodes = drawn.nodes;
  s.jobs = 1;
  s.lease = 60 * kSecond;  // The default.
  s.between_requests = 1'000'000'000 * kSecond;
  s.encoded = drawn.encoded;
  s.straggler_seed = drawn.straggler_seed;
  s.max_slots = drawn.max_slots;
  s.shards = drawn.shards;
  s.control_delay = drawn.control_delay;
  s.store_delay = drawn.store_delay;
  s.disk_delay = drawn.disk_delay;
  s.recovers = 0.5;
  return s;
}

// A job's state when the controller went away.
struct Before {
  JobState state = JobState::kQueued;
  int64_t generation = 0;
};

// Checks that the controller's absence has not disturbed the jobs.
void CheckUndisturbed(World& world, const std::map<JobId, Before>& before) {
  const auto& jobs = world.controller->cluster().jobs();
  for (const auto& [id, was] : before) {
    const auto found = jobs.find(id);
    if (found == jobs.end()) {
      world.trace.Fail(id.value(), " is lost");
      continue;
    }
    const Job& job = found->second;
    if (was.state != JobState::kRunning) continue;
    if (job.state != JobState::kSucceeded) {
      world.trace.Fail(id.value(), " has not SUCCEEDED, though nothing broke: ", job.reason);
    } else if (job.generation.value() != was.generation) {
      world.trace.Fail(id.value(), " was disturbed: it trained as generation ", was.generation,
                       ", and ended as ", job.generation.value());
    }
  }
}

}  // namespace

World::World(uint64_t seed, size_t kept_lines)
    : random(seed), settings(DrawSettings(random, seed)), trace(&time, kept_lines) {
  network = std::make_unique<Network>(
      time, random.Fork(), settings.nodes,
      Network::Options{settings.control_delay, settings.repeated_message});
  observer = std::make_unique<Observer>(*this);
  straggler_judge = std::make_unique<StragglerJudge>(*this);
  replica_judge = std::make_unique<ReplicaJudge>(*this);
  copy_judge = std::make_unique<CopyJudge>(*this);
  elastic_judge = std::make_unique<ElasticJudge>(*this);
  controller = std::make_unique<SimController>(*this);
  training = std::make_unique<Training>(*this);
  for (int node = 0; node < settings.nodes; ++node) {
    nodes.push_back(std::make_unique<SimNode>(
        *this, node, static_cast<int>(random.Between(1, settings.max_slots))));
  }
}

World::~World() = default;

Outcome RunHistory(uint64_t seed, size_t kept_events, bool standbys) {
  World world(seed, kept_events);
  world.settings.standbys = standbys;
  Faults faults(world);
  Requests requests(world);
  NodeRequests node_requests(world);
  world.controller->Start();
  for (const auto& node : world.nodes) node->StartDaemon();
  requests.Start();
  node_requests.Start();
  faults.Start();
  StragglerFaults straggler_faults(world);
  StragglerRequests straggler_requests(world);
  if (world.settings.stragglers) {
    straggler_faults.Start();
    straggler_requests.Start();
  }
  return Play(world);
}

Outcome RunOutage(uint64_t seed, double seconds, bool standbys, size_t kept_events) {
  World world(seed, kept_events);
  Settings& s = world.settings;
  s = WithoutFaults(s);
  s.standbys = standbys;
  // Most jobs end while nobody leads; the longest go on afterwards.
  s.steps = 30;
  s.quiet = 60 * kSecond;
  const auto away = static_cast<Micros>(seconds * kSecond);
  // Jobs depend on `end`, so it depends on the seed.
  s.end = s.quiet + away + (20000 + static_cast<Micros>(seed)) * kSecond;
  Requests requests(world);
  world.controller->Start();
  for (const auto& node : world.nodes) node->StartDaemon();
  requests.Start();

  std::map<JobId, Before> before;
  const Micros gone = s.quiet - kSecond;  // Before IsOver() is asked first.
  world.time.At(gone, [&] {
    for (const auto& [id, job] : world.controller->cluster().jobs()) {
      before[id] = {job.state, job.generation.value()};
      if (job.state == JobState::kRunning) world.coverage.Count("job trains without a controller");
    }
    world.controller->Crash();
  });
  world.time.At(gone + away, [&] { world.controller->Start(); });
  Outcome outcome = Play(world);
  if (outcome.failure.empty()) CheckUndisturbed(world, before);
  outcome.failure = world.trace.failure().value_or("");
  outcome.events = world.trace.lines();
  return outcome;
}

std::string Describe(uint64_t seed, size_t kept_events) {
  const Outcome outcome = RunHistory(seed, kept_events);
  std::string text;
  for (const std::string& line : outcome.events) absl::StrAppend(&text, line, "\n");
  absl::StrAppend(&text, "seed ", seed, ": ",
                  outcome.failure.empty() ? "all invariants hold" : outcome.failure, " (",
                  outcome.steps, " events, ", outcome.seconds, " s)\n");
  return text;
}

}  // namespace paceline::sim
