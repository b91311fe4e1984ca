// paceline admin log-level, backup and restore: the daemons themselves.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/text/sanitize.h"
#include "cli/verbs/checkpoint/byte_bar.h"
#include "cli/verbs/program/value_check.h"
#include "cli/verbs/program/verb_parts.h"
#include "cli/verbs/verbs.h"
#include "cli/view/numbers.h"
#include "common/atomic_file/atomic_file.h"
#include "common/checkpoint/checksum.h"
#include "common/core/status_macros.h"
#include "common/job_spec/enum_name.h"
#include "common/uuid.h"
#include "controller/store/state_file.h"
#include "proto/admin.pb.h"
#include "proto/log_level.pb.h"

namespace paceline {
namespace {

struct LogLevelFlags {
  std::string level;
  std::string node;
};

// "debug"; "default" is the level that the daemon was started with.
std::string LevelText(v1::LogLevel level) {
  if (level == v1::LOG_LEVEL_UNSPECIFIED) return "default";
  return EnumName(*v1::LogLevel_descriptor(), level);
}

v1::LogLevel LevelOf(const std::string& text) {
  v1::LogLevel level = v1::LOG_LEVEL_UNSPECIFIED;
  v1::LogLevel_Parse("LOG_LEVEL_" + absl::AsciiStrToUpper(text), &level);
  return level;
}

int LogLevelVerb(Program& program, const LogLevelFlags& flags) {
  v1::LogLevelReply reply;
  grpc::Status status;
  if (flags.level.empty()) {
    v1::GetLogLevelRequest request;
    request.set_node(flags.node);
    status = program.client().Call(methods::kAdminGetLogLevel, request, &reply);
  } else {
    v1::SetLogLevelRequest request;
    request.set_node(flags.node);
    request.set_level(LevelOf(flags.level));
    request.set_request_id(NewUuid());
    request.set_owner(program.user());
    if (request.owner().empty()) return program.FailWithoutUser();
    status = program.client().Call(methods::kAdminSetLogLevel, request, &reply);
  }
  return TellAnswer(program, status, reply, [&](std::ostream& out) {
    out << (flags.node.empty() ? "controller" : flags.node) << ": " << LevelText(reply.level())
        << "\n";
  });
}

void AddAdminLogLevel(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<LogLevelFlags>();
  CLI::App* verb = parent.add_subcommand(
      "log-level", "Show or change what a daemon writes to its log, while it runs");
  verb->add_option("LEVEL", flags->level, "default: as the daemon was started")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "default"}));
  verb->add_option("--node", flags->node, "Of this node's worker daemon. Default: the controller");
  AddOwner(*verb, program);
  RunWith(*verb, program, flags, LogLevelVerb);
}

// Outcome of the stream.
struct Received {
  absl::Status written;  // Status of writing the file.
  int64_t bytes = 0;
  std::optional<v1::BackupEnd> end;
  std::string checksum;
};

// Only the user may read the file, since the state describes everybody's jobs.
absl::StatusOr<AtomicFile> CreatePrivate(const std::string& path) {
  const mode_t before = umask(077);
  absl::StatusOr<AtomicFile> file = AtomicFile::Create(path);
  umask(before);
  return file;
}

grpc::Status Receive(Program& program, AtomicFile& file, Received* received) {
  ByteBar bar(program, "receiving");
  Checksum checksum;
  int64_t all = 0;
  const grpc::Status status =
      program.client().Stream(methods::kAdminBackup, {}, [&](const v1::BackupChunk& chunk) {
        if (chunk.total_bytes() > 0) all = chunk.total_bytes();
        if (chunk.has_end()) received->end = chunk.end();
        checksum.Add(chunk.data());
        received->bytes += static_cast<int64_t>(chunk.data().size());
        received->written = file.Append(chunk.data());
        bar.Show(received->bytes, all);
        return received->written.ok();
      });
  received->checksum = ChecksumText(checksum.Take());
  return status;
}

absl::Status CheckReceived(const Received& received) {
  PACELINE_RETURN_IF_ERROR(received.written);
  if (received.end.has_value() && received.end->bytes() == received.bytes &&
      received.end->checksum() == received.checksum) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("the backup did not come as it was sent (",
                                          received.bytes, " bytes, ", received.checksum,
                                          "): try again"));
}

// Checks the complete file under another name, before it replaces an older one.
absl::Status PutInPlace(const std::string& part, const std::string& file) {
  absl::Status status = CheckStateFile(part);
  if (status.ok() && std::rename(part.c_str(), file.c_str()) != 0) {
    status = absl::PermissionDeniedError(
        absl::StrCat("cannot rename to ", file, ": ", std::strerror(errno)));
  }
  if (status.ok()) return SyncDirectoryOf(file);
  unlink(part.c_str());
  return status;
}

int BackupVerb(Program& program, const std::string& path) {
  // A listener keeps the first Ctrl-C from ending the process before the file is removed.
  const Interrupt::Listener listener(program.interrupt(), [] {});
  const std::string part = path + ".part";
  Received received;
  {
    absl::StatusOr<AtomicFile> file = CreatePrivate(part);
    if (!file.ok()) return program.Fail(file.status());
    const grpc::Status status = Receive(program, *file, &received);
    if (!status.ok()) return program.Fail(status);
    const absl::Status sound = CheckReceived(received);
    if (!sound.ok()) return program.Fail(sound);
    const absl::Status committed = file->Commit();
    if (!committed.ok()) return program.Fail(committed);
  }
  const absl::Status placed = PutInPlace(part, path);
  if (!placed.ok()) return program.Fail(placed);
  if (program.json()) {
    const nlohmann::json json = {
        {"file", path}, {"bytes", received.bytes}, {"checksum", received.checksum}};
    program.PrintJsonText(json.dump(1));
    return kCliOk;
  }
  program.out() << SanitizeLine(path) << ": " << BytesText(received.bytes) << ", checked"
                << std::endl;
  return kCliOk;
}

void AddAdminBackup(CLI::App& parent, Program& program) {
  const auto path = std::make_shared<std::string>();
  CLI::App* verb = parent.add_subcommand(
      "backup", "Write a copy of all state of the controller to a file, while it goes on");
  verb->add_option("FILE", *path, "Replaced, when the new one is complete, if it is there")
      ->check(PlainPath())
      ->required();
  verb->callback([path, &program] {
    program.action = [path, &program] { return BackupVerb(program, *path); };
  });
}

struct RestoreFlags {
  std::string file;
  std::string state_dir;
  bool force = false;
};

int RestoreVerb(Program& program, const RestoreFlags& flags) {
  // As in the controller: the state describes everybody's jobs.
  ::umask(077);
  const absl::StatusOr<Restoration> restored =
      RestoreState(flags.file, flags.state_dir, flags.force, absl::Now());
  if (!restored.ok()) return program.Fail(restored.status());
  if (program.json()) {
    const nlohmann::json json = {
        {"state_dir", flags.state_dir}, {"kept", restored->kept}, {"number", restored->number}};
    program.PrintJsonText(json.dump(1));
    return kCliOk;
  }
  program.out() << SanitizeLine(flags.state_dir) << " holds the state of "
                << SanitizeLine(flags.file) << "\n";
  if (!restored->kept.empty()) {
    program.out() << "the state before is kept as " << SanitizeLine(restored->kept) << "\n";
  }
  program.out() << "start the controller: jobs that trained then go on from their newest "
                   "checkpoints"
                << std::endl;
  return kCliOk;
}

void AddAdminRestore(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<RestoreFlags>();
  CLI::App* verb = parent.add_subcommand(
      "restore", "Put a backup in the place of a controller's state, while it is stopped");
  verb->add_option("FILE", flags->file, "Of paceline admin backup")->check(PlainPath())->required();
  verb->add_option("--state-dir", flags->state_dir, "State directory of the controller")
      ->check(PlainPath())
      ->required();
  verb->add_flag("--force", flags->force,
                 "Also if the directory holds a state, which is kept under another name");
  RunWith(*verb, program, flags, RestoreVerb);
}

}  // namespace

void AddAdminVerbs(CLI::App& parent, Program& program) {
  AddAdminLogLevel(parent, program);
  AddAdminBackup(parent, program);
  AddAdminRestore(parent, program);
}

}  // namespace paceline
