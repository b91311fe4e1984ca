// paceline admin backup FILE
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/text/neutral.h"
#include "cli/verbs/byte_bar.h"
#include "cli/verbs/verbs.h"
#include "cli/view/numbers.h"
#include "common/atomic_file/atomic_file.h"
#include "common/checkpoint/checksum.h"
#include "common/core/status_macros.h"
#include "controller/store/state_file.h"
#include "proto/admin.pb.h"

namespace paceline {
namespace {

// What has come of the stream.
struct Received {
  absl::Status written;  // Of what could be written.
  int64_t bytes = 0;
  std::optional<v1::BackupEnd> end;
  std::string checksum;
};

// The state tells of everybody's jobs: nobody else is to read it.
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
  const grpc::Status status = program.client().Backup({}, [&](const v1::BackupChunk& chunk) {
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

// The file is complete under another name: looked through before it takes the place of an older.
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
  // Listening keeps the first Ctrl-C from ending the process before what was written is removed.
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
  program.out() << NeutralLine(path) << ": " << BytesText(received.bytes) << ", checked"
                << std::endl;
  return kCliOk;
}

}  // namespace

void AddAdminBackup(CLI::App& parent, Program& program) {
  const auto path = std::make_shared<std::string>();
  CLI::App* verb = parent.add_subcommand(
      "backup", "Write a copy of all state of the controller to a file, while it goes on");
  verb->add_option("FILE", *path, "Replaced, when the new one is complete, if it is there")
      ->required();
  verb->callback([path, &program] {
    program.action = [path, &program] { return BackupVerb(program, *path); };
  });
}

}  // namespace paceline
