// Runs trainers without a cluster, for benchmarks: plays the daemon for `--ranks` of them on
// this machine and prints, when all have finished, one JSON object with what is in their step
// rings and the last evaluation (null without data.eval):
//   {"spawned_ns": N, "evaluation": {"loss": X, "accuracy": X},
//    "ranks": [{"starts_ns": [...], "totals_ns": [...], "waits_ns": [...], "losses": [...],
//               "wire_bytes": N, "slipstream": {...}}, ...]}
// Times are CLOCK_MONOTONIC nanoseconds; waits_ns is the part of a step's that goes with other
// ranks: collectives, and waiting for rounds. wire_bytes is what the rank sent in all steps.
// slipstream (null with another strategy) are counts of proto/status.proto, SlipstreamFigures, as
// the rank told them last. Checkpoints are made complete as a controller does it.
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/core/ladder.h"
#include "common/core/status_macros.h"
#include "common/job_spec/job_spec.h"
#include "common/job_spec/training_plan.h"
#include "google/protobuf/text_format.h"
#include "proto/trainer.pb.h"
#include "worker/link/frame.h"
#include "worker/ring/step_ring.h"

namespace paceline {
namespace {

struct Options {
  std::string trainer;    // Program.
  std::string spec_path;  // paceline.v1.JobSpec as text.
  std::string directory;  // Existing and empty; short enough for a socket's path.
  int ranks = 1;
  int threads = 1;
  std::string interface = "lo";          // What the trainers use for collectives and the store.
  std::string store_host = "127.0.0.1";  // Rank 0's address on it.
};

constexpr char kJob[] = "job-00000000bench";
constexpr uint32_t kRingCapacity = 1 << 14;

struct Trainer {
  std::string directory;
  std::string ring;
  pid_t pid = -1;
};

absl::Status Errno(const char* what) {
  return absl::InternalError(absl::StrCat(what, ": ", strerror(errno)));
}

class TrainerRun {
 public:
  explicit TrainerRun(const Options& options) : options_(options) {}

  absl::Status Run() {
    PACELINE_RETURN_IF_ERROR(ReadSpec());
    PACELINE_RETURN_IF_ERROR(Listen());
    spawned_ns_ = MonotonicNanos();
    for (int rank = 0; rank < options_.ranks; ++rank) PACELINE_RETURN_IF_ERROR(Spawn(rank));
    // Runs until all have ended and all their messages have been read.
    while (running_ > 0 || !connections_.empty()) PACELINE_RETURN_IF_ERROR(PollOnce());
    return absl::OkStatus();
  }

  absl::Status Print() const {
    nlohmann::json ranks = nlohmann::json::array();
    for (size_t rank = 0; rank < trainers_.size(); ++rank) {
      const Trainer& trainer = trainers_[rank];
      PACELINE_ASSIGN_OR_RETURN(const StepRingReader reader, StepRingReader::Open(trainer.ring));
      nlohmann::json starts = nlohmann::json::array();
      nlohmann::json totals = nlohmann::json::array();
      nlohmann::json waits = nlohmann::json::array();
      nlohmann::json losses = nlohmann::json::array();
      uint64_t wire_bytes = 0;
      for (const StepRecord& record : reader.ReadFrom(0).records) {
        starts.push_back(record.start_ns);
        totals.push_back(record.total_ns);
        waits.push_back(WaitOf(record));
        losses.push_back(record.loss);
        wire_bytes += record.wire_bytes;
      }
      ranks.push_back({{"starts_ns", starts},
                       {"totals_ns", totals},
                       {"waits_ns", waits},
                       {"losses", losses},
                       {"wire_bytes", wire_bytes},
                       {"slipstream", FiguresOf(static_cast<int>(rank))}});
    }
    std::cout << nlohmann::json(
                     {{"spawned_ns", spawned_ns_}, {"evaluation", evaluation_}, {"ranks", ranks}})
              << std::endl;
    return absl::OkStatus();
  }

 private:
  static uint64_t WaitOf(const StepRecord& record) {
    uint64_t waits = 0;
    for (const Phase phase : {Phase::kCommunication, Phase::kAveraging, Phase::kRoundWait}) {
      waits += record.phase_ns[static_cast<size_t>(phase)];
    }
    return waits;
  }

  nlohmann::json FiguresOf(int rank) const {
    const auto reported = statuses_.find(rank);
    if (reported == statuses_.end() || !reported->second.figures().has_slipstream()) return nullptr;
    const v1::SlipstreamFigures& figures = reported->second.figures().slipstream();
    return {{"rounds", figures.rounds()},
            {"contributing_ranks", figures.contributing_ranks()},
            {"contributions", figures.contributions()},
            {"stale_rounds", figures.stale_rounds()},
            {"steps", figures.steps()},
            {"sent_updates", figures.sent_updates()},
            {"lost_updates", figures.lost_updates()},
            {"used_gradients", figures.used_gradients()},
            {"dropped_gradients", figures.dropped_gradients()},
            {"window_s", figures.window_s()},
            {"cap_wait_s", figures.cap_wait_s()},
            {"round_wait_s", figures.round_wait_s()},
            {"collective_s", figures.collective_s()}};
  }

  absl::Status ReadSpec() {
    std::ifstream file(options_.spec_path);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (!file || !google::protobuf::TextFormat::ParseFromString(text, &spec_)) {
      return absl::InvalidArgumentError(
          absl::StrCat(options_.spec_path, ": not a JobSpec as text"));
    }
    FillDefaults(&spec_);
    return absl::OkStatus();
  }

  absl::Status Listen() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    socket_path_ = absl::StrCat(options_.directory, "/daemon.sock");
    if (socket_path_.size() >= sizeof(address.sun_path)) {
      return absl::InvalidArgumentError(absl::StrCat(socket_path_, ": too long for a socket"));
    }
    socket_path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener_ < 0 ||
        ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
        ::listen(listener_, options_.ranks) != 0) {
      return Errno("socket");
    }
    return absl::OkStatus();
  }

  absl::Status Spawn(int rank) {
    Trainer trainer;
    trainer.directory = absl::StrCat(options_.directory, "/", kJob, ".1.", rank);
    trainer.ring = absl::StrCat(options_.directory, "/", rank, ".ring");
    if (::mkdir(trainer.directory.c_str(), 0700) != 0) return Errno("mkdir");
    PACELINE_RETURN_IF_ERROR(CreateStepRing(trainer.ring, kRingCapacity));
    trainer.pid = ::fork();
    if (trainer.pid < 0) return Errno("fork");
    if (trainer.pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::execl(options_.trainer.c_str(), options_.trainer.c_str(), "--dir",
              trainer.directory.c_str(), "--socket", socket_path_.c_str(), "--ring",
              trainer.ring.c_str(), nullptr);
      ::_exit(127);
    }
    trainers_.push_back(std::move(trainer));
    ++running_;
    return absl::OkStatus();
  }

  // Waits for a connection, a message, or the end of a connection, and handles it.
  absl::Status PollOnce() {
    std::vector<pollfd> fds = {{listener_, POLLIN, 0}};
    for (const auto& [fd, decoder] : connections_) fds.push_back({fd, POLLIN, 0});
    if (::poll(fds.data(), fds.size(), /*timeout=*/1000) < 0) return Errno("poll");
    if (fds[0].revents != 0) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return Errno("accept");
      connections_.emplace(fd, FrameDecoder());
    }
    for (size_t i = 1; i < fds.size(); ++i) {
      if (fds[i].revents != 0) PACELINE_RETURN_IF_ERROR(Receive(fds[i].fd));
    }
    return Reap();
  }

  absl::Status Receive(int fd) {
    char buffer[4096];
    const ssize_t got = ::read(fd, buffer, sizeof(buffer));
    if (got <= 0) {
      ::close(fd);
      connections_.erase(fd);
      return absl::OkStatus();
    }
    FrameDecoder& decoder = connections_[fd];
    decoder.Append({buffer, static_cast<size_t>(got)});
    while (true) {
      PACELINE_ASSIGN_OR_RETURN(const auto payload, decoder.Next());
      if (!payload) return absl::OkStatus();
      v1::TrainerStatus status;
      if (!status.ParseFromString(*payload)) return absl::InternalError("not a TrainerStatus");
      PACELINE_RETURN_IF_ERROR(Answer(fd, status));
    }
  }

  // Sends the trainer its job at once, and the store's address when it is known.
  absl::Status Answer(int fd, const v1::TrainerStatus& status) {
    const int rank = status.id().rank();
    if (status.has_evaluation()) {
      evaluation_ = {{"loss", status.evaluation().loss()},
                     {"accuracy", status.evaluation().accuracy()}};
    }
    const bool is_new = sockets_.emplace(rank, fd).second;
    const bool has_store = store_address_.empty() && rank == 0 && status.store_port() > 0;
    if (has_store) {
      store_address_ = absl::StrCat(options_.store_host, ":", status.store_port());
      for (const auto& [other, socket] : sockets_) PACELINE_RETURN_IF_ERROR(Send(other, socket));
    } else if (is_new) {
      PACELINE_RETURN_IF_ERROR(Send(rank, fd));
    }
    return CommitSaves(status);
  }

  // Tells rank 0 to commit the saves whose shards are durable on all ranks.
  absl::Status CommitSaves(const v1::TrainerStatus& status) {
    statuses_[status.id().rank()] = status;
    std::set<int64_t> steps;
    for (const v1::SaveStatus& save : statuses_[0].saves()) {
      if (IsDurable(save.step())) steps.insert(save.step());
    }
    // No more messages about saves whose end it has reported: it may be gone by then.
    const bool more =
        !std::includes(commit_steps_.begin(), commit_steps_.end(), steps.begin(), steps.end());
    commit_steps_ = std::move(steps);
    return more ? Send(0, sockets_.at(0)) : absl::OkStatus();
  }

  bool IsDurable(int64_t step) {
    for (int rank = 0; rank < options_.ranks; ++rank) {
      const auto& saves = statuses_[rank].saves();
      if (std::none_of(saves.begin(), saves.end(), [step](const v1::SaveStatus& save) {
            return save.step() == step && save.state() == v1::SAVE_DURABLE;
          })) {
        return false;
      }
    }
    return true;
  }

  absl::Status Send(int rank, int fd) {
    v1::TrainerCommand command;
    command.set_store_address(store_address_);
    v1::TrainerConfig& config = *command.mutable_config();
    config.mutable_id()->set_job_id(kJob);
    config.mutable_id()->set_generation(1);
    config.mutable_id()->set_rank(rank);
    *config.mutable_spec() = spec_;
    config.set_world_size(options_.ranks);
    config.set_slot(rank);
    config.set_threads(options_.threads);
    config.set_interface(options_.interface);
    *command.mutable_plan() = MakeTrainingPlan(
        /*version=*/1, spec_.strategy(),
        std::vector<RankHome>(static_cast<size_t>(options_.ranks)));
    if (rank == 0) {
      command.mutable_checkpoints()->mutable_commit_steps()->Assign(commit_steps_.begin(),
                                                                    commit_steps_.end());
    }
    const std::string frame = EncodeFrame(command.SerializeAsString());
    if (::send(fd, frame.data(), frame.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(frame.size())) {
      return Errno("send");
    }
    return absl::OkStatus();
  }

  absl::Status Reap() {
    for (Trainer& trainer : trainers_) {
      int status = 0;
      if (trainer.pid < 0 || ::waitpid(trainer.pid, &status, WNOHANG) != trainer.pid) continue;
      trainer.pid = -1;
      --running_;
      if (status != 0) {
        return absl::InternalError(absl::StrCat("trainer in ", trainer.directory,
                                                " ended with wait status ", status,
                                                "; its log lies there"));
      }
    }
    return absl::OkStatus();
  }

  const Options& options_;
  v1::JobSpec spec_;
  std::string socket_path_;
  std::string store_address_;  // Empty until rank 0 has sent it.
  int listener_ = -1;
  uint64_t spawned_ns_ = 0;
  int running_ = 0;
  nlohmann::json evaluation_;
  std::vector<Trainer> trainers_;              // By rank.
  std::map<int, FrameDecoder> connections_;    // By file descriptor.
  std::map<int, int> sockets_;                 // File descriptor by rank.
  std::map<int, v1::TrainerStatus> statuses_;  // The latest, by rank.
  std::set<int64_t> commit_steps_;
};

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Runs trainers without a cluster and prints their step times.");
  app.add_option("--trainer", options.trainer, "the trainer program")->required();
  app.add_option("--spec", options.spec_path, "file with a JobSpec as protobuf text")->required();
  app.add_option("--dir", options.directory, "existing empty directory to work in")->required();
  app.add_option("--ranks", options.ranks, "number of trainers")->capture_default_str();
  app.add_option("--threads", options.threads, "threads of each trainer")->capture_default_str();
  app.add_option("--interface", options.interface, "network interface of the trainers")
      ->capture_default_str();
  app.add_option("--store-host", options.store_host, "address of rank 0 on that interface")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  TrainerRun run(options);
  absl::Status status = run.Run();
  if (status.ok()) status = run.Print();
  if (!status.ok()) std::cerr << "trainer_run: " << status << std::endl;
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main(argc, argv); }
