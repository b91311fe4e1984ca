#include "worker/trainer/testing/fake_daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/core/ladder.h"
#include "common/job_spec/training_plan.h"
#include "common/log.h"
#include "worker/link/frame.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/testing/start_trainer.h"

namespace paceline {
namespace {

constexpr char kJob[] = "job-0123456789ab";
constexpr uint32_t kRingRecords = 4096;

// A short path, since a socket's may have at most 107 bytes.
std::string SocketPath() {
  char directory[] = "/tmp/paceline.XXXXXX";
  PACELINE_CHECK(mkdtemp(directory) != nullptr);
  return absl::StrCat(directory, "/daemon.sock");
}

std::string ReadFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

struct FakeDaemon::Connection {
  int fd = -1;
  FrameDecoder decoder;
  int number = -1;  // Of the trainer; unknown until its first status.

  ~Connection() { close(fd); }
};

FakeDaemon::FakeDaemon(Options options) : options_(std::move(options)), socket_(SocketPath()) {
  ComeBack();
}

FakeDaemon::~FakeDaemon() {
  for (Trainer& trainer : trainers_) {
    if (!trainer.ended) {
      kill(trainer.pid, SIGKILL);
      waitpid(trainer.pid, nullptr, 0);
    }
    close(trainer.pidfd);
  }
  GoAway();
  std::filesystem::remove_all(std::filesystem::path(socket_).parent_path());
}

void FakeDaemon::Launch(const v1::JobSpec& spec, int64_t generation,
                        const std::string& restore_from) {
  connections_.clear();
  for (const Trainer& trainer : trainers_) {
    PACELINE_CHECK(trainer.ended);
    close(trainer.pidfd);
  }
  spec_ = spec;
  first_generation_ = generation_ = generation;
  restore_from_ = restore_from;
  commit_steps_.clear();
  members_ = {};
  complete_step_ = complete_generation_ = settled_step_ = 0;
  for (int rank = 0; rank < spec.ranks(); ++rank) members_.trainers.push_back(rank);
  sends_members_ = spec.recovery().max_failures() > 0;
  plan_ = MakePlan(1, spec.strategy());
  trainers_.clear();
  for (int rank = 0; rank < spec.ranks() + spec.recovery().spares(); ++rank) Add(generation, rank);
}

int FakeDaemon::Add(int64_t generation, int rank) {
  Trainer& trainer = trainers_.emplace_back();
  trainer.generation = generation;
  trainer.rank = rank;
  const int number = static_cast<int>(trainers_.size()) - 1;
  Start(number);
  return number;
}

void FakeDaemon::SetMembers(const Members& members) {
  ++generation_;
  sends_members_ = true;
  members_ = members;
  settled_step_ = 0;
  plan_ = MakePlan(plan_.version() + 1, members.strategy.value_or(spec_.strategy()));
  SendCommands();
}

bool FakeDaemon::RendezvousDone() const {
  return std::all_of(members_.trainers.begin(), members_.trainers.end(), [this](int number) {
    return status(number).membership().generation() == generation_;
  });
}

std::string FakeDaemon::JobId() { return kJob; }

void FakeDaemon::SetPlan(const v1::TrainingPlan& plan) {
  plan_ = plan;
  SendCommands();
}

v1::TrainingPlan FakeDaemon::MakePlan(int64_t version, const v1::Strategy& strategy) const {
  // A shrinking job gives up its last seats, or replicas: a plan counts these.
  const int shards = std::max(spec_.shards(), 1);
  std::vector<bool> filled(static_cast<size_t>(spec_.ranks() / shards), true);
  const size_t left = members_.trainers.size() / static_cast<size_t>(shards);
  for (size_t seat = left; seat < filled.size(); ++seat) filled[seat] = false;
  return MakeTrainingPlan(version, strategy, std::vector<RankHome>(filled.size()), filled);
}

void FakeDaemon::SetProfile(const std::vector<int>& ranks, const v1::ProfileRequest& request) {
  for (const int rank : ranks) trainers_.at(static_cast<size_t>(rank)).profile = request;
  SendCommands();
}

void FakeDaemon::SetSaveOrder(const v1::SaveOrder& order) {
  for (Trainer& trainer : trainers_) trainer.save = order;
  SendCommands();
}

void FakeDaemon::SetSaveOrder(const std::vector<int>& ranks, const v1::SaveOrder& order) {
  for (const int rank : ranks) trainers_.at(static_cast<size_t>(rank)).save = order;
  SendCommands();
}

void FakeDaemon::SetSaveOrder(int64_t number, const std::string& directory) {
  v1::SaveOrder order;
  order.set_number(number);
  directories_[number] = directory;
  SetSaveOrder(order);
}

void FakeDaemon::SetCommitSteps(const std::vector<int64_t>& steps) {
  commit_steps_ = steps;
  SendCommands();
}

void FakeDaemon::Start(int number) {
  std::filesystem::create_directories(TrainerDirectory(number));
  PACELINE_CHECK(CreateStepRing(RingPath(number), kRingRecords).ok());
  std::vector<std::string> args = {options_.trainer, "--dir",  TrainerDirectory(number), "--socket",
                                   socket_,          "--ring", RingPath(number)};
  args.insert(args.end(), options_.extra_args.begin(), options_.extra_args.end());
  for (const std::string& name : options_.variables) {
    const char* const value = getenv(name.c_str());
    args.insert(args.end(), {"--set", absl::StrCat(name, "=", value == nullptr ? "" : value)});
  }
  Trainer& trainer = trainers_[static_cast<size_t>(number)];
  trainer.pid = StartTrainer(options_.server, args);
  trainer.pidfd = static_cast<int>(syscall(SYS_pidfd_open, trainer.pid, 0));
  PACELINE_CHECK(trainer.pidfd >= 0);
}

bool FakeDaemon::Serve(const std::function<bool()>& done) {
  const absl::Time deadline = absl::Now() + options_.patience;
  while (!done() && !std::all_of(trainers_.begin(), trainers_.end(),
                                 [](const Trainer& trainer) { return trainer.ended; })) {
    std::vector<pollfd> fds = {{listen_fd_, POLLIN, 0}};
    fds.reserve(1 + trainers_.size() + connections_.size());
    for (const Trainer& trainer : trainers_) {
      fds.push_back({trainer.ended ? -1 : trainer.pidfd, POLLIN, 0});
    }
    for (const auto& connection : connections_) fds.push_back({connection->fd, POLLIN, 0});
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return false;
    poll(fds.data(), fds.size(), static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);

    std::vector<std::unique_ptr<Connection>> open;
    for (size_t i = 0; i < connections_.size(); ++i) {
      const bool ready = fds[1 + trainers_.size() + i].revents != 0;
      if (!ready || Receive(*connections_[i])) open.push_back(std::move(connections_[i]));
    }
    connections_ = std::move(open);
    if (fds[0].revents != 0) Accept();
    SendCommands();
    for (size_t i = 0; i < trainers_.size(); ++i) {
      if (fds[1 + i].revents != 0) Reap(trainers_[i]);
    }
  }
  return true;
}

void FakeDaemon::Accept() {
  auto connection = std::make_unique<Connection>();
  connection->fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
  PACELINE_CHECK(connection->fd >= 0);
  connections_.push_back(std::move(connection));
}

bool FakeDaemon::Receive(Connection& connection) {
  char buffer[4096];
  const ssize_t size = recv(connection.fd, buffer, sizeof(buffer), 0);
  if (size <= 0) return false;
  connection.decoder.Append({buffer, static_cast<size_t>(size)});
  while (true) {
    absl::StatusOr<std::optional<std::string>> payload = connection.decoder.Next();
    PACELINE_CHECK(payload.ok());
    if (!payload->has_value()) return true;
    v1::TrainerStatus status;
    PACELINE_CHECK(status.ParseFromString(**payload));
    const auto found = std::find_if(trainers_.begin(), trainers_.end(), [&](const Trainer& one) {
      return one.generation == status.id().generation() && one.rank == status.id().rank();
    });
    if (found == trainers_.end()) return false;
    Trainer& trainer = *found;
    // A new connection gets the whole command, whatever was sent on the old one.
    if (connection.number < 0) trainer.sent.clear();
    connection.number = static_cast<int>(found - trainers_.begin());
    trainer.status = std::move(status);
    ++trainer.statuses;
    TakeCopies();
  }
}

bool FakeDaemon::IsDurable(int64_t step, int64_t order) const {
  return std::all_of(members_.trainers.begin(), members_.trainers.end(), [&](int number) {
    const auto& saves = status(number).saves();
    return std::any_of(saves.begin(), saves.end(), [&](const v1::SaveStatus& save) {
      return save.step() == step && save.order() == order && save.state() == v1::SAVE_DURABLE &&
             (save.generation() == 0 || save.generation() == generation_);
    });
  });
}

v1::CheckpointPlan FakeDaemon::Checkpoints(int rank) const {
  v1::CheckpointPlan plan;
  const Trainer& trainer = trainers_[static_cast<size_t>(rank)];
  if (trainer.save.has_value()) *plan.mutable_save() = *trainer.save;
  for (const auto& [order, directory] : directories_) {
    v1::SaveDirectory& named = *plan.add_directories();
    named.set_order(order);
    named.set_directory(directory);
  }
  if (rank != members_.trainers.front()) return plan;
  std::map<int64_t, int64_t> commits;  // Order number by step.
  for (const int64_t step : commit_steps_) commits[step] = 0;
  for (const v1::SaveStatus& save : trainer.status.saves()) {
    if (options_.commit_saves && IsDurable(save.step(), save.order())) {
      commits[save.step()] = save.order();
    }
  }
  for (const auto& [step, order] : commits) {
    plan.add_commit_steps(step);
    plan.add_commit_orders(order);
  }
  return plan;
}

v1::Membership FakeDaemon::MembershipOf(int number) const {
  const std::vector<int>& ranks = members_.trainers;
  v1::Membership membership;
  membership.set_generation(generation_);
  const auto seat = std::find(ranks.begin(), ranks.end(), number);
  membership.set_rank(seat == ranks.end() ? -1 : static_cast<int>(seat - ranks.begin()));
  membership.set_world_size(static_cast<int>(ranks.size()));
  membership.set_shards(spec_.shards());
  membership.set_planned(members_.planned);
  membership.set_averages_first(members_.averages_first);
  if (members_.saved_step.has_value()) membership.set_saved_step(*members_.saved_step);
  for (const auto& [leaver, rank] : members_.hand_over) {
    if (number == leaver || membership.rank() == rank) membership.set_hand_over_rank(rank);
  }
  membership.set_batch_per_rank(members_.batch_per_rank);
  membership.set_accumulation_steps(members_.accumulation_steps);
  if (spec_.recovery().copy_every_steps() > 0 && membership.rank() >= 0) {
    *membership.mutable_copies() = CopiesOf(membership.rank());
  }
  const bool all_loaded = std::all_of(
      ranks.begin(), ranks.end(), [this](int member) { return status(member).store_port() != 0; });
  if (all_loaded) {
    membership.set_store_address(absl::StrCat("127.0.0.1:", status(ranks.front()).store_port()));
  }
  return membership;
}

v1::MemberCopies FakeDaemon::CopiesOf(int rank) const {
  const int ranks = static_cast<int>(members_.trainers.size());
  v1::MemberCopies copies;
  copies.set_seat(rank);
  copies.set_buddy_rank((rank + 1) % ranks);
  copies.set_ward_rank((rank + ranks - 1) % ranks);
  copies.set_complete_step(complete_step_);
  copies.set_complete_generation(complete_generation_);
  copies.set_settled_step(settled_step_);
  copies.set_restore(members_.restores);
  return copies;
}

// As the controller does.
void FakeDaemon::TakeCopies() {
  if (members_.trainers.empty()) return;
  const auto copies_of = [this](int number) {
    const v1::CopyStatus& copies = status(number).membership().copies();
    return copies.generation() == generation_ ? copies : v1::CopyStatus();
  };
  const v1::CopyStatus first = copies_of(members_.trainers.front());
  int64_t settled = first.settled_step();
  bool all = first.copied_step() > 0;
  for (const int number : members_.trainers) {
    settled = std::min<int64_t>(settled, copies_of(number).settled_step());
    all = all && copies_of(number).copied_step() == first.copied_step();
  }
  settled_step_ = settled;
  if (!all) return;
  complete_step_ = first.copied_step();
  complete_generation_ = generation_;
}

v1::TrainerCommand FakeDaemon::Command(int number) const {
  const Trainer& trainer = trainers_[static_cast<size_t>(number)];
  v1::TrainerCommand command;
  v1::TrainerConfig* config = command.mutable_config();
  config->mutable_id()->set_job_id(kJob);
  config->mutable_id()->set_generation(trainer.generation);
  config->mutable_id()->set_rank(trainer.rank);
  *config->mutable_spec() = spec_;
  config->set_world_size(spec_.ranks());
  config->set_slot(number);
  config->set_threads(options_.threads);
  config->set_interface("lo");
  if (trainer.generation == first_generation_) config->set_restore_from(restore_from_);
  config->set_local_rank(trainer.rank);
  config->set_local_world_size(spec_.ranks());
  *config->mutable_object_stores() = options_.object_stores;
  if (sends_members_) {
    *command.mutable_membership() = MembershipOf(number);
  } else if (const int port = trainers_[0].status.store_port(); port != 0) {
    command.set_store_address(absl::StrCat("127.0.0.1:", port));
  }
  *command.mutable_plan() = plan_;
  if (trainer.profile.has_value()) *command.mutable_profile() = *trainer.profile;
  if (!spec_.checkpoint().directory().empty()) *command.mutable_checkpoints() = Checkpoints(number);
  command.set_stopping(trainer.stopping);
  return command;
}

void FakeDaemon::SendCommands() {
  for (const auto& connection : connections_) {
    if (connection->number < 0) continue;
    Trainer& trainer = trainers_[static_cast<size_t>(connection->number)];
    const std::string bytes = Command(connection->number).SerializeAsString();
    if (bytes == trainer.sent) continue;
    trainer.sent = bytes;
    const std::string frame = EncodeFrame(bytes);
    // If the trainer has just died, waiting for its process will notice.
    if (send(connection->fd, frame.data(), frame.size(), MSG_NOSIGNAL) < 0) continue;
  }
}

void FakeDaemon::Reap(Trainer& trainer) {
  PACELINE_CHECK(waitpid(trainer.pid, &trainer.wait_status, 0) == trainer.pid);
  trainer.ended = true;
}

void FakeDaemon::GoAway() {
  connections_.clear();
  if (listen_fd_ >= 0) close(listen_fd_);
  listen_fd_ = -1;
  unlink(socket_.c_str());
}

void FakeDaemon::ComeBack() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  listen_fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  PACELINE_CHECK(bind(listen_fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  PACELINE_CHECK(listen(listen_fd_, 64) == 0);
}

void FakeDaemon::Signal(int rank, int signal) {
  kill(trainers_[static_cast<size_t>(rank)].pid, signal);
}

void FakeDaemon::Stop(int rank) {
  SayStopping(rank);
  Signal(rank, SIGTERM);
}

void FakeDaemon::SayStopping(int rank) {
  trainers_[static_cast<size_t>(rank)].stopping = true;
  SendCommands();
}

int FakeDaemon::exit_code(int rank) const {
  const int status = trainers_[static_cast<size_t>(rank)].wait_status;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int FakeDaemon::exit_signal(int rank) const {
  const int status = trainers_[static_cast<size_t>(rank)].wait_status;
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

bool FakeDaemon::HasLastWords(int rank) const {
  return std::filesystem::exists(TrainerDirectory(rank) + "/status");
}

v1::TrainerStatus FakeDaemon::LastWords(int rank) const {
  v1::TrainerStatus status;
  PACELINE_CHECK(status.ParseFromString(ReadFile(TrainerDirectory(rank) + "/status")));
  return status;
}

std::string FakeDaemon::Log(int rank) const {
  std::vector<std::string> segments;
  const std::string directory = TrainerDirectory(rank) + "/log";
  if (!std::filesystem::exists(directory)) return "";
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    segments.push_back(entry.path());
  }
  std::sort(segments.begin(), segments.end());
  std::string log;
  for (const std::string& segment : segments) log += ReadFile(segment);
  return log;
}

std::string FakeDaemon::TrainerDirectory(int rank) const {
  const Trainer& trainer = trainers_[static_cast<size_t>(rank)];
  return absl::StrCat(options_.directory, "/", kJob, ".", trainer.generation, ".", trainer.rank);
}

std::string FakeDaemon::RingPath(int rank) const { return TrainerDirectory(rank) + ".ring"; }

}  // namespace paceline
