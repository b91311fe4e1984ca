// The workers and users of a large cluster, simulated in one process, for bench/load.py: each node
// has a connection of its own to a real controller. Commands come on standard input, one a line;
// answers are lines of JSON.
//
//   (at the start)  {"event": "running", "seconds": N}   all jobs train
//   measure         {"event": "measuring"}               figures start over
//   stop            {"event": "result", ...}              no steps any more; all are confirmed
//   storm           {"event": "waiting"}, {"event": "back", ...}
//                                                        once all nodes were lost and are back
//   quit
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/load/api_calls.h"
#include "bench/load/echo.h"
#include "bench/load/load_credentials.h"
#include "bench/load/simulated_node.h"
#include "bench/load/totals.h"
#include "bench/load/watchers.h"
#include "common/event_loop.h"

namespace paceline {
namespace {

// The nodes take turns within this interval (worker/daemon/worker_node.cc, kPollInterval), a dozen
// at once: more at once would be a burst that nodes with separate clocks do not make.
constexpr absl::Duration kPoll = absl::Milliseconds(100);
constexpr size_t kTurns = 100;
constexpr absl::Duration kPatience = absl::Minutes(5);
// By then a node that was cut off is back, and has reported what was lost with its next steps.
constexpr absl::Duration kBack = absl::Seconds(5);

struct Options {
  std::string controller;
  std::string echo;
  std::string pki;  // As for MakeLoadCredentials.
  int nodes = 1250;
  int ranks = 8;
  double steps_per_second = 10;
  int watchers = 100;
  int reconnects = 12;  // Per minute.
  uint64_t seed = 1;
  double short_s = 0;  // Length of the jobs that end.
  ApiOptions api;
};

void Tell(const std::string& event, nlohmann::json line = {}) {
  line["event"] = event;
  std::cout << line << std::endl;
}

class Load {
 public:
  // `names`: names of the nodes. Requires: credentials for each.
  Load(const Options& options, const std::vector<std::string>& names,
       const LoadCredentials& identities)
      : options_(options),
        random_(options.seed),
        watchers_(options.controller, identities.watchers),
        calls_(options.api),
        pings_(options.echo, identities.users) {
    for (size_t n = 0; n < names.size(); ++n) {
      SimulatedNode::Options node;
      node.controller = options.controller;
      node.name = names[n];
      node.credentials = identities.nodes[n];
      node.ranks = options.ranks;
      node.steps_per_second = options.steps_per_second;
      node.seed = options.seed * 1'000'003 + n;
      nodes_.push_back(std::make_unique<SimulatedNode>(node, &totals_, &storm_));
    }
  }

  // False: not all jobs ran in time.
  bool Begin() {
    const absl::Time begun = EventLoop::Now();
    ticks_ = std::thread([this] { Tick(); });
    if (!WaitFor([this] { return totals_.connected == options_.nodes; })) return false;
    const std::vector<std::string> jobs = calls_.SubmitAll();
    int64_t ranks = int64_t{options_.api.jobs} * options_.api.ranks;
    if (options_.short_s > 0) ranks = ranks * 8 / 10;  // Some may have ended by then.
    if (!WaitFor([&] { return totals_.running >= ranks; })) return false;
    watchers_.Start(options_.watchers, jobs);
    calls_.Start();
    if (!options_.echo.empty()) pings_.Start();
    nlohmann::json line;
    line["seconds"] = absl::ToDoubleSeconds(EventLoop::Now() - begun);
    Tell("running", std::move(line));
    return true;
  }

  // Carries out commands until one ends it.
  int Serve() {
    std::string command;
    while (std::getline(std::cin, command)) {
      if (command == "measure") {
        Measure();
      } else if (command == "storm") {
        if (!AwaitStorm()) return 1;
      } else if (command == "stop") {
        Finish();
      } else if (command == "quit") {
        break;
      } else {
        std::cerr << "unknown command: " << command << std::endl;
        return 1;
      }
    }
    End();
    return 0;
  }

 private:
  template <typename Condition>
  bool WaitFor(Condition holds) {
    const absl::Time deadline = EventLoop::Now() + kPatience;
    while (!holds()) {
      if (EventLoop::Now() > deadline) {
        Tell("gave up",
             {{"connected", totals_.connected.load()}, {"running", totals_.running.load()}});
        return false;
      }
      absl::SleepFor(absl::Milliseconds(20));
    }
    return true;
  }

  // Ticks each node ten times a second, in turns, and cuts connections now and then.
  void Tick() {
    absl::Time next = EventLoop::Now();
    absl::Time cut = next + absl::Minutes(1);
    for (size_t turn = 0; !stopping_; turn = (turn + 1) % kTurns) {
      const absl::Time now = EventLoop::Now();
      for (size_t n = turn; n < nodes_.size(); n += kTurns) nodes_[n]->Tick(now);
      if (options_.reconnects > 0 && cuts_ && now >= cut) {
        nodes_[random_() % nodes_.size()]->Cut();
        cut = now + absl::Minutes(1) / options_.reconnects;
      }
      if (turn == 0) watchers_.Renew();
      next += kPoll / static_cast<int64_t>(kTurns);
      const absl::Time done = EventLoop::Now();
      late_.Add(std::max(done - next, absl::ZeroDuration()));
      if (done > next + kPoll) next = done;  // Too slow: does not make up for all turns.
      absl::SleepFor(next - done);
    }
  }

  void Measure() {
    totals_.heartbeats.Clear();
    calls_.ClearFigures();
    watchers_.ClearFigures();
    pings_.unary().Clear();
    pings_.streaming().Clear();
    late_.Clear();
    cuts_ = true;
    Tell("measuring");
  }

  bool AwaitStorm() {
    cuts_ = false;
    for (const auto& node : nodes_) node->SetSteps(true);
    storm_.Begin();
    Tell("waiting");
    const bool back = WaitFor([this] { return storm_.begun() && totals_.connected == 0; }) &&
                      WaitFor([this] { return totals_.connected == options_.nodes; });
    if (!back) return false;
    Tell("back", storm_.Summary());
    return true;
  }

  // Afterwards every record that was sent is confirmed or was lost with its connection.
  void Finish() {
    cuts_ = false;
    nlohmann::json result = {
        {"heartbeats", totals_.heartbeats.Summary()},
        {"calls", calls_.Summary()},
        {"unary", pings_.unary().Summary()},
        {"streaming", pings_.streaming().Summary()},
        {"late", late_.Summary()},
        {"submitted", calls_.submitted()},
        {"watch_events", watchers_.events()},
        {"watch_bytes", watchers_.bytes()},
        {"watches_ended", watchers_.ended()},
    };
    absl::SleepFor(kBack);
    for (const auto& node : nodes_) node->SetSteps(false);
    absl::SleepFor(3 * kPoll);  // By then all records made so far have been sent.
    WaitFor(
        [this] { return totals_.records_sent == totals_.records_confirmed + totals_.records_cut; });
    result["reports"] = totals_.reports.load();
    result["losses"] = totals_.losses.load();
    result["records"] = {{"sent", totals_.records_sent.load()},
                         {"confirmed", totals_.records_confirmed.load()},
                         {"cut", totals_.records_cut.load()},
                         {"dropped", totals_.records_dropped.load()}};
    Tell("result", std::move(result));
  }

  void End() {
    stopping_ = true;
    ticks_.join();
    pings_.Stop();
    calls_.Stop();
    watchers_.Stop();
    for (const auto& node : nodes_) node->Stop();
  }

  const Options options_;
  Totals totals_;
  Storm storm_;
  std::vector<std::unique_ptr<SimulatedNode>> nodes_;
  std::mt19937_64 random_;  // Used by the ticks' thread.
  Latencies late_;          // How late turns are: above a few ms the driver lacks processor time.
  std::atomic<bool> stopping_{false};
  std::atomic<bool> cuts_{false};
  Watchers watchers_;
  ApiCalls calls_;
  Pings pings_;
  std::thread ticks_;
};

std::vector<std::string> NodeNames(int nodes) {
  std::vector<std::string> names;
  for (int n = 0; n < nodes; ++n) names.push_back(absl::StrFormat("node-%05d", n));
  return names;
}

int Run(Options options) {
  const std::vector<std::string> names = NodeNames(options.nodes);
  const absl::StatusOr<LoadCredentials> identities = MakeLoadCredentials(options.pki, names);
  if (!identities.ok()) {
    std::cerr << identities.status() << std::endl;
    return 2;
  }
  options.api.credentials = identities->users;
  Load load(options, names, *identities);
  // Does not stop threads that still run: the caller needs nothing more.
  if (!load.Begin()) std::_Exit(1);
  return load.Serve();
}

int Main(int argc, char** argv) {
  // Like controller/main.cc: else each lock of gRPC waits for a process-wide one.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  Options options;
  bool serve_echo = false;
  CLI::App app("Simulated workers and users of a large cluster.");
  app.add_flag("--serve-echo", serve_echo, "only answer pings");
  app.add_option("--controller", options.controller, "host:port");
  app.add_option("--echo", options.echo, "host:port of one with --serve-echo");
  app.add_option("--pki", options.pki,
                 "folder of `paceline pki init`: all speak TLS, each node as itself");
  app.add_option("--nodes", options.nodes, "nodes")->check(CLI::Range(1, 100000));
  app.add_option("--ranks", options.ranks, "ranks of a node")->check(CLI::Range(1, 1024));
  app.add_option("--steps-per-second", options.steps_per_second, "of each rank")
      ->check(CLI::Range(0.001, 1000.0));
  app.add_option("--jobs", options.api.jobs, "jobs that share all ranks")
      ->check(CLI::PositiveNumber);
  app.add_option("--waiting", options.api.waiting, "jobs beyond these, which wait");
  app.add_option("--short", options.short_s, "every tenth job ends after so many seconds; 0: none");
  app.add_option("--watchers", options.watchers, "streams that watch jobs and nodes");
  app.add_option("--calls-per-second", options.api.calls_per_second, "of users")
      ->check(CLI::PositiveNumber);
  app.add_option("--reconnects", options.reconnects, "connections cut per minute");
  app.add_option("--seed", options.seed, "of what is random");
  CLI11_PARSE(app, argc, argv);
  if (serve_echo) return ServeEcho(options.pki);
  options.api.controller = options.controller;
  options.api.ranks = options.nodes * options.ranks / options.api.jobs;
  options.api.short_steps = static_cast<int64_t>(options.short_s * options.steps_per_second);
  if (options.api.ranks < 1) {
    std::cerr << "there are more jobs than ranks" << std::endl;
    return 2;
  }
  return Run(std::move(options));
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main(argc, argv); }
