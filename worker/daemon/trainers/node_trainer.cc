#include "worker/daemon/trainers/node_trainer.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/boot_clock.h"
#include "common/core/host_port.h"
#include "common/core/status_macros.h"
#include "common/foreign_dir.h"
#include "common/job_spec/job_spec.h"
#include "common/log.h"
#include "common/uuid.h"
#include "worker/daemon/logs/log_files.h"
#include "worker/daemon/session/kept_message.h"
#include "worker/daemon/state/job_paths.h"
#include "worker/daemon/trainers/trainer_environment.h"
#include "worker/daemon/trainers/trainer_sockets.h"
#include "worker/link/interface_host.h"
#include "worker/shim/small_file.h"
#include "worker/shim/trainer_dir.h"
#include "worker/shim/trainer_lock.h"

namespace paceline {
namespace {

constexpr uint32_t kRingCapacity = 4096;
constexpr size_t kMaxModules = 1 << 20;

// Makes the trainer's folder, which its user can enter but not write, and the user's own inside.
absl::Status MakeDirs(const std::string& dir, const std::string& own_dir, const JobUser& user) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot create ", dir));
  if (::chmod(dir.c_str(), 0711) != 0 || (::mkdir(own_dir.c_str(), 0700) != 0 && errno != EEXIST)) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", own_dir));
  }
  return GiveTo(user, own_dir);
}

}  // namespace

NodeTrainer::Remains NodeTrainer::Examine(const NodePaths& paths, const TrainerId& id) {
  const std::string dir = paths.TrainerDir(id);
  if (!ReadMessage<v1::TrainerPlan>(absl::StrCat(dir, "/", trainer_dir::kPlan))) {
    return Remains::kOld;
  }
  for (const char* sign : {trainer_dir::kResult, trainer_dir::kExit}) {
    if (::access(absl::StrCat(dir, "/", sign).c_str(), F_OK) == 0) return Remains::kStarted;
  }
  const absl::StatusOr<TrainerProcesses> processes = ReadTrainerLock(dir);
  if (processes.ok() && processes->alive) return Remains::kStarted;
  // The shim writes into the lock once its trainer runs.
  struct stat lock;
  const bool written =
      ::stat(absl::StrCat(dir, "/", trainer_dir::kLock).c_str(), &lock) == 0 && lock.st_size > 0;
  return written ? Remains::kStarted : Remains::kUnborn;
}

NodeTrainer::NodeTrainer(const TrainerSetup& setup, TrainerId id)
    : setup_(setup),
      id_(std::move(id)),
      dir_(setup.paths.TrainerDir(id_)),
      last_step_(BootNow()),
      command_(setup, id_),
      collectives_(setup.paths.OwnDir(id_)) {}

absl::Status NodeTrainer::Prepare(const v1::TrainerPlan& plan) {
  PACELINE_RETURN_IF_ERROR(MakeDirs(dir_, setup_.paths.OwnDir(id_), setup_.user));
  plan_ = plan;
  PACELINE_RETURN_IF_ERROR(TakeStoreSecret());
  // A script's own store needs no secret from us.
  if (store_secret_.empty() && HasEngine()) {
    store_secret_ = NewUuid();
    PACELINE_RETURN_IF_ERROR(WriteSmallFile(File(trainer_dir::kStoreSecret), store_secret_));
  }
  PACELINE_RETURN_IF_ERROR(WriteSmallFile(File(trainer_dir::kPlan), plan_.SerializeAsString()));
  result_ = ReadMessage<v1::TrainerReport>(File(trainer_dir::kResult));
  return absl::OkStatus();
}

absl::Status NodeTrainer::Start(const v1::TrainerPlan& plan) {
  PACELINE_RETURN_IF_ERROR(Prepare(plan));
  if (ended()) return absl::OkStatus();
  // A compiled model is a program of the user's, too.
  if (IsCommand() || plan_.spec().model().has_compiled()) {
    PACELINE_RETURN_IF_ERROR(command_.CheckAccepted());
  }
  if (HasEngine() || (plan_.spec().watch() && !setup_.watch_dir.empty())) {
    PACELINE_RETURN_IF_ERROR(OpenRing());
  }
  unlaunched_ = IsCommand();
  if (!HasEngine()) {
    PACELINE_ASSIGN_OR_RETURN(const int port, command_.ReservePort());
    status_.set_state(v1::TRAINER_READY);
    status_.set_store_port(port);
  } else if (!IsCommand()) {
    PACELINE_ASSIGN_OR_RETURN(process_, TrainerProcess::Start(StartCommand()));
  }
  return absl::OkStatus();
}

bool NodeTrainer::HasEngine() const { return paceline::HasEngine(plan_.spec()); }

absl::Status NodeTrainer::OpenRing() {
  const std::string ring = setup_.paths.Ring(id_);
  PACELINE_RETURN_IF_ERROR(CreateStepRing(ring, kRingCapacity));
  PACELINE_ASSIGN_OR_RETURN(ring_, RingTail::Open(ring));
  // Nobody else can write the ring's folder, so this is still the file created above.
  return GiveTo(setup_.user, ring);
}

bool NodeTrainer::IsUnlaunched() const { return unlaunched_ && !ended(); }

bool NodeTrainer::CanLaunch() const {
  return IsUnlaunched() && !waits_for_code_ && !plan_.has_stop() &&
         (HasEngine() || !plan_.store_address().empty());
}

absl::Status NodeTrainer::Launch(const TrainerProcess::Command& command,
                                 std::optional<TrainerProcess> stood_by) {
  if (stood_by.has_value()) {
    process_ = std::move(stood_by);
  } else {
    PACELINE_ASSIGN_OR_RETURN(process_, TrainerProcess::Start(command));
  }
  unlaunched_ = false;
  if (HasEngine()) return absl::OkStatus();  // It opens its store and reports by itself.
  // Only rank 0 uses its port.
  if (Member().rank.value() != 0) command_.FreePort();
  status_.set_state(v1::TRAINER_RUNNING);
  KeepMessage(File(trainer_dir::kSeen), status_);
  return absl::OkStatus();
}

void NodeTrainer::EndUnlaunched() {
  v1::TrainerReport result = Report();
  result.set_state(v1::TRAINER_EXITED);
  result.mutable_exit()->set_message("stopped on request before it was started");
  SetResult(std::move(result));
}

absl::StatusOr<TrainerProcess::Command> NodeTrainer::PrepareLaunch() const {
  PACELINE_RETURN_IF_ERROR(command_.WriteEnvironment(plan_, ring_.has_value()));
  return UserProgram();
}

TrainerProcess::Command NodeTrainer::UserProgram() const {
  TrainerProcess::Command command = StartCommand();
  command_.Complete(plan_.spec(), command);
  return command;
}

std::string NodeTrainer::ModulesPath() const {
  return absl::StrCat(setup_.paths.OwnDir(id_), "/", trainer_dir::kModules);
}

std::optional<std::string> NodeTrainer::LeftModules() const {
  return OwnFile(trainer_dir::kModules, kMaxModules);
}

TrainerProcess::Command NodeTrainer::StartCommand() const {
  TrainerProcess::Command command;
  command.shim = setup_.shim;
  command.program = {plan_.spec().device() == v1::CUDA ? setup_.trainer_cuda : setup_.trainer,
                     "--dir",
                     setup_.paths.OwnDir(id_),
                     "--socket",
                     setup_.paths.Socket(),
                     "--ring",
                     setup_.paths.Ring(id_),
                     "--log-segment-bytes",
                     absl::StrCat(setup_.log_segment_bytes),
                     "--orphan-timeout-s",
                     absl::StrCat(setup_.orphan_timeout_s)};
  command.environment =
      TrainerEnvironment(setup_.environment, setup_.store_environment, plan_.spec());
  command.trainer_dir = dir_;
  command.own_dir = setup_.paths.OwnDir(id_);
  command.confinement = setup_.limits;
  command.confinement.user = setup_.user.switched();
  command.roots = setup_.roots;
  command.paths = PathsOf(plan_);
  return command;
}

void NodeTrainer::FailStart(const absl::Status& status) {
  v1::TrainerReport result = Report();
  result.set_state(v1::TRAINER_EXITED);
  result.mutable_exit()->set_failure(v1::FAILURE_START);
  result.mutable_exit()->set_message(ToUtf8(std::string(status.message())));
  SetResult(std::move(result));
}

void NodeTrainer::Skip(const v1::TrainerPlan& plan) {
  const absl::Status prepared = Prepare(plan);
  if (!prepared.ok()) PACELINE_LOG(ERROR) << "not_kept reason=\"" << prepared.message() << "\"";
  if (!ended()) EndUnlaunched();
}

absl::Status NodeTrainer::Adopt() {
  plan_ = ReadMessage<v1::TrainerPlan>(File(trainer_dir::kPlan)).value_or(plan_);
  status_ = ReadMessage<v1::TrainerStatus>(File(trainer_dir::kSeen)).value_or(status_);
  result_ = ReadMessage<v1::TrainerReport>(File(trainer_dir::kResult));
  if (ended()) return absl::OkStatus();
  killed_ = plan_.has_stop();
  if (::access(StacksPath().c_str(), F_OK) == 0) stacks_ = Stacks::kSaved;
  if (const absl::Status taken = TakeStoreSecret(); !taken.ok()) {
    PACELINE_LOG(ERROR) << "store_secret_lost " << Named() << " reason=\"" << taken.message()
                        << "\"";
  }
  absl::StatusOr<RingTail> ring = RingTail::Open(setup_.paths.Ring(id_));
  if (ring.ok()) {
    ring_ = *std::move(ring);
    steps_seen_ = ring_->written();
    if (ring_->last().has_value()) {
      const uint64_t end_ns = ring_->last()->start_ns + ring_->last()->total_ns;
      last_step_ = BootNow() - absl::Nanoseconds(static_cast<int64_t>(MonotonicNanos() - end_ns));
    }
  }
  PACELINE_ASSIGN_OR_RETURN(process_, TrainerProcess::Adopt(dir_));
  // It may end before the next Poll, and its exit record has no ids.
  if (process_.has_value()) FindPid();
  return absl::OkStatus();
}

void NodeTrainer::SetPlan(const v1::TrainerPlan& plan) {
  if (plan.SerializeAsString() == plan_.SerializeAsString()) return;
  plan_ = plan;
  KeepMessage(File(trainer_dir::kPlan), plan_);
}

Tell NodeTrainer::OnStatus(const v1::TrainerStatus& status) {
  if (ended()) return Tell::kNothing;
  const Tell tell = HowSoon(status_, status);
  status_ = status;
  if (tell != Tell::kNothing) KeepMessage(File(trainer_dir::kSeen), status_);
  return tell;
}

bool NodeTrainer::FindPid() {
  const absl::StatusOr<TrainerProcesses> processes = ReadTrainerLock(dir_);
  if (!processes.ok() || processes->trainer == 0) return false;
  pid_ = processes->trainer;
  state_.emplace(processes->trainer);
  return true;
}

Tell NodeTrainer::Poll(absl::Time now) {
  if (ring_.has_value()) {
    ring_->Poll();
    if (std::exchange(steps_seen_, ring_->written()) != steps_seen_) last_step_ = now;
  }
  if (!process_.has_value()) return Tell::kNothing;
  Tell tell = Tell::kNothing;
  if (pid_ == 0) {
    if (!FindPid()) return Tell::kNothing;
    tell = Tell::kSoon;
    if (!HasEngine()) {  // It reports nothing, and it may end before a later daemon looks.
      status_.set_pid(pid_);
      KeepMessage(File(trainer_dir::kSeen), status_);
    }
  }
  const bool asked = AskCollectives(now, tell);
  was_asked_ = was_asked_ || asked;
  if (IsSilentCommand() && command_.LookForLife(now, plan_.spec(), process_->shim(), was_asked_)) {
    was_asked_ = asked;
  }
  if (stacks_ == Stacks::kBeingSaved) return tell;
  const bool suspended = state_->Suspended();
  if (std::exchange(suspended_, suspended) != suspended) tell = Tell::kNow;
  return tell;
}

bool NodeTrainer::AskCollectives(absl::Time now, Tell& tell) {
  if (!IsWatchedCommand() || !process_.has_value()) return false;
  const bool waited = collectives_.waits();
  if (collectives_.Poll(plan_.collectives_wanted(), Member().rank.value(), now)) tell = Tell::kNow;
  return waited || collectives_.waits();
}

std::optional<pid_t> NodeTrainer::BeginStacks() {
  if (!plan_.save_stacks() || stacks_ != Stacks::kNone || ended() || pid_ == 0) {
    return std::nullopt;
  }
  stacks_ = Stacks::kBeingSaved;
  return static_cast<pid_t>(pid_);
}

std::string NodeTrainer::StacksPath() const { return File(trainer_dir::kStacks); }

void NodeTrainer::EndStacks(bool saved) {
  stacks_ = Stacks::kSaved;
  if (!saved || !ended()) return;
  result_->set_stacks_file(StacksPath());
  KeepResult();
}

HeldTrainer NodeTrainer::Held() const {
  HeldTrainer held;
  held.id = id_;
  held.generation = Member().generation;
  held.rank = Member().rank.value();
  held.world_size = plan_.has_membership() ? plan_.membership().world_size() : plan_.world_size();
  held.leased = plan_.leased();
  held.running = process_.has_value() && !fenced_;
  held.waiting = status_.membership().waiting();
  held.last_step = last_step_;
  if (ring_.has_value() && ring_->last().has_value()) {
    held.step_length = absl::Nanoseconds(static_cast<int64_t>(ring_->last()->total_ns));
  }
  return held;
}

void NodeTrainer::Stop(bool kill) {
  killed_ = killed_ || kill;
  kill ? process_->Kill() : process_->Terminate();
}

void NodeTrainer::Fence(const std::string& why) {
  fenced_ = true;
  const absl::Status kept = WriteSmallFile(File(trainer_dir::kFenced), why);
  if (!kept.ok()) PACELINE_LOG(ERROR) << "not_kept reason=\"" << kept.message() << "\"";
  process_->Kill();
}

absl::Status NodeTrainer::Vouch(pid_t pid) const {
  if (!process_.has_value()) return absl::UnavailableError("it does not run");
  if (process_->IsTrainer(pid, dir_)) return absl::OkStatus();
  if (IsCommand() && process_->HasStarted(pid)) return absl::OkStatus();
  const absl::StatusOr<TrainerProcesses> processes = ReadTrainerLock(dir_);
  if (processes.ok() && !processes->alive) return absl::UnavailableError("it has ended");
  return absl::PermissionDeniedError(
      absl::StrCat("it says that it is ", TrainerName(id_), ", which is another process"));
}

void NodeTrainer::Forget() {
  ::unlink(File(trainer_dir::kPlan).c_str());
  ::unlink(setup_.paths.Ring(id_).c_str());
}

std::string NodeTrainer::Named() const {
  const TrainerId member = Member();
  return absl::StrCat("trainer=", TrainerName(id_), " generation=", member.generation.value(),
                      " rank=", member.rank.value());
}

TrainerId NodeTrainer::Member() const {
  if (!plan_.has_membership()) return id_;
  return {id_.job, Generation(plan_.membership().generation()), Rank(plan_.membership().rank())};
}

void NodeTrainer::SetResult(v1::TrainerReport result) {
  process_.reset();
  command_.FreePort();
  result_ = std::move(result);
  KeepResult();
}

void NodeTrainer::KeepResult() {
  ::unlink(setup_.paths.Ring(id_).c_str());
  KeepMessage(File(trainer_dir::kResult), *result_);
}

std::optional<std::string> NodeTrainer::OwnFile(const char* name, size_t most_bytes) const {
  const absl::StatusOr<ForeignDir> dir = ForeignDir::Open(setup_.paths.OwnDir(id_));
  if (!dir.ok()) return std::nullopt;
  const absl::StatusOr<ForeignFile> file = dir->OpenFile(name);
  if (!file.ok()) return std::nullopt;
  absl::StatusOr<std::string> text = file->ReadAll(most_bytes);
  return text.ok() ? std::optional<std::string>(*std::move(text)) : std::nullopt;
}

absl::Status NodeTrainer::TakeStoreSecret() {
  store_host_ = setup_.interface.empty() ? setup_.address
                                         : InterfaceHost(setup_.interface).value_or(setup_.address);
  PACELINE_ASSIGN_OR_RETURN(const std::optional<std::string> kept,
                            ReadSmallFile(File(trainer_dir::kStoreSecret)));
  store_secret_ = kept.value_or("");
  return absl::OkStatus();
}

std::string NodeTrainer::StoreAddress() const {
  const std::string place = JoinHostPort(store_host_, status_.store_port());
  // A trainer started by an earlier version knows no secret.
  return store_secret_.empty() ? place : absl::StrCat(place, "/", store_secret_);
}

std::string NodeTrainer::File(const char* name) const { return absl::StrCat(dir_, "/", name); }

}  // namespace paceline
