#include "worker/daemon/trainers/standbys.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/log.h"
#include "worker/daemon/core/standby_program.h"
#include "worker/daemon/trainers/trainer_environment.h"

namespace paceline {
namespace {

constexpr absl::Duration kKeptUnneeded = absl::Seconds(30);

bool MayStartAgain(const v1::TrainerPlan& plan) {
  return plan.local().restarts() < plan.spec().max_restarts();
}

}  // namespace

Standbys::Key Standbys::KeyOf(const NodeTrainer& trainer) {
  const TrainerId member = trainer.Member();
  return {member.job.value(), member.rank.value()};
}

void Standbys::Poll(const std::map<TrainerId, NodeTrainer>& trainers, absl::Time now) {
  if (script_.empty()) return;
  ending_.erase(std::remove_if(ending_.begin(), ending_.end(),
                               [](const TrainerProcess& process) { return process.Reap(); }),
                ending_.end());
  ReadNews();
  std::set<std::string> jobs;
  for (const auto& [id, trainer] : trainers) {
    if (trainer.ended()) continue;
    jobs.insert(id.job.value());
    if (trainer.IsWatchedCommand() && trainer.process().has_value()) StartMissing(trainer, now);
  }
  for (auto entry = standbys_.begin(); entry != standbys_.end();) {
    if (jobs.count(entry->first.first) > 0) entry->second.needed = now;
    const bool is_over = now >= entry->second.needed + kKeptUnneeded;
    if (is_over) End(entry->second);
    entry = is_over ? standbys_.erase(entry) : std::next(entry);
  }
}

void Standbys::ReadNews() {
  for (auto& [key, standby] : standbys_) {
    if (!standby.process.has_value()) continue;
    const std::optional<absl::Status> news = standby.process->News();
    if (!news.has_value()) continue;
    standby.ready = news->ok();
    standby.reported = news->ok() ? "ready" : absl::StrCat("none: ", news->message());
    PACELINE_LOG(INFO) << "standby job=" << key.first << " rank=" << key.second << " is=\""
                       << standby.reported << "\"";
    if (!news->ok()) End(standby);
  }
}

bool Standbys::IsImporting() const {
  return std::any_of(standbys_.begin(), standbys_.end(), [](const auto& entry) {
    return entry.second.process.has_value() && !entry.second.ready;
  });
}

void Standbys::StartMissing(const NodeTrainer& trainer, absl::Time now) {
  if (!MayStartAgain(trainer.plan()) || trainer.ring()->written() == 0) return;
  const Key key = KeyOf(trainer);
  const int64_t generation = trainer.Member().generation.value();
  if (const auto found = standbys_.find(key); found != standbys_.end()) {
    // An interpreter that failed in one generation may work in the next.
    if (found->second.process.has_value() || found->second.generation == generation) return;
    standbys_.erase(found);
  }
  if (IsImporting()) return;
  TrainerProcess::Command command = trainer.UserProgram();
  Standby standby;
  standby.generation = generation;
  standby.program = command.program;
  standby.needed = now;
  const auto refuse = [&](absl::string_view why) {
    standby.reported = absl::StrCat("none: ", why);
    standbys_.emplace(key, std::move(standby));
  };
  const auto program = StandbyProgram(command.program, script_);
  if (!program.ok()) return refuse(program.status().message());
  const std::optional<std::string> modules = trainer.LeftModules();
  if (!modules.has_value()) return refuse("what the script has imported is not known");
  absl::string_view why = *modules;
  if (absl::ConsumePrefix(&why, "!")) return refuse(absl::StripSuffix(why, "\n"));
  command.program = *program;
  standby.environment = trainer.EnvironmentText();
  absl::StatusOr<StandbyProcess> process = StandbyProcess::Start(command, trainer.ModulesPath());
  if (!process.ok()) return refuse(process.status().message());
  standby.process.emplace(*std::move(process));
  standby.reported = "importing";
  standbys_.emplace(key, std::move(standby));
}

std::optional<TrainerProcess> Standbys::Start(const NodeTrainer& trainer,
                                              const TrainerProcess::Command& command) {
  const auto found = standbys_.find(KeyOf(trainer));
  if (found == standbys_.end() || !found->second.process.has_value()) return std::nullopt;
  ReadNews();
  Standby& standby = found->second;
  std::optional<TrainerProcess> process;
  const bool fits = standby.ready && standby.program == command.program &&
                    IsSameRank(standby.environment, trainer.EnvironmentText());
  if (fits) {
    absl::StatusOr<TrainerProcess> become = standby.process->Become(command);
    if (become.ok()) process.emplace(*std::move(become));
  }
  if (!process.has_value()) {
    PACELINE_LOG(INFO) << "standby_left " << trainer.Named() << " reason=\""
                       << (standby.ready ? "command or environment has changed" : standby.reported)
                       << "\"";
    End(standby);
  }
  standbys_.erase(found);
  return process;
}

void Standbys::End(Standby& standby) {
  if (standby.process.has_value()) ending_.push_back(std::move(*standby.process).End());
  standby.process.reset();
  standby.ready = false;
}

std::string Standbys::Tell(const NodeTrainer& trainer) const {
  if (!trainer.IsWatchedCommand() || trainer.ended()) return "";
  const auto found = standbys_.find(KeyOf(trainer));
  return found == standbys_.end() ? "" : found->second.reported;
}

}  // namespace paceline
