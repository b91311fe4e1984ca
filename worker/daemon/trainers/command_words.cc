#include "worker/daemon/trainers/command_words.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <csignal>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/core/utf8_prefix.h"

namespace paceline {
namespace {

constexpr size_t kMostMessageBytes = 500;

// Errors of torch.distributed and its transports that mean that another rank is gone.
constexpr absl::string_view kPeerGone[] = {
    "DistBackendError", "DistNetworkError",          "DistStoreError",           "gloo/transport",
    "ncclRemoteError",  "Connection closed by peer", "Connection reset by peer",
};
// An error of the store's server, which runs in this rank.
constexpr absl::string_view kPortTaken = "EADDRINUSE";
constexpr absl::string_view kNoMemory[] = {"OutOfMemoryError", "MemoryError", "CUDA out of memory",
                                           "std::bad_alloc"};

template <size_t N>
bool HasOneOf(const absl::string_view (&texts)[N], absl::string_view line) {
  for (const absl::string_view text : texts) {
    if (absl::StrContains(line, text)) return true;
  }
  return false;
}

// Reads {"message": {"message": "ValueError: ...", "extraInfo": {...}}} or {"message": "..."}.
// Returns "" for anything else.
std::string MessageOf(const std::string& error_file) {
  google::protobuf::Struct file;
  if (error_file.empty() || !google::protobuf::util::JsonStringToMessage(error_file, &file).ok()) {
    return "";
  }
  const auto outer = file.fields().find("message");
  if (outer == file.fields().end()) return "";
  if (!outer->second.has_struct_value()) return outer->second.string_value();
  const auto& fields = outer->second.struct_value().fields();
  const auto inner = fields.find("message");
  return inner == fields.end() ? "" : inner->second.string_value();
}

bool IsIndented(absl::string_view line) { return !line.empty() && absl::ascii_isspace(line[0]); }

// Whether the line begins with an exception's name: "torch.OutOfMemoryError: ...".
bool NamesException(absl::string_view line) {
  const absl::string_view name = line.substr(0, line.find(':'));
  for (const char c : name) {
    if (!absl::ascii_isalnum(c) && c != '.' && c != '_') return false;
  }
  return absl::EndsWith(name, "Error") || absl::EndsWith(name, "Exception") ||
         absl::EndsWith(name, "Interrupt");
}

// Whether a wrapper reports that its program failed; that program has reported the reason itself.
bool IsOfWrapper(absl::string_view line) {
  return absl::StartsWith(line, "subprocess.CalledProcessError: ");
}

// torch.distributed puts "[rank2]: " before the lines of a traceback.
absl::string_view WithoutRank(absl::string_view line) {
  if (!absl::StartsWith(line, "[rank")) return line;
  const size_t end = line.find("]: ");
  return end == line.npos ? line : line.substr(end + 3);
}

// Returns the line naming the error that ended a Python or C++ program; empty if there is none.
std::string ErrorIn(absl::string_view log_tail) {
  std::string found;
  bool in_traceback = false;
  for (absl::string_view line : absl::StrSplit(log_tail, '\n')) {
    line = absl::StripTrailingAsciiWhitespace(WithoutRank(line));
    if (absl::StrContains(line, "Traceback (most recent call last)")) {
      in_traceback = true;
    } else if (absl::StartsWith(line, "  what():  ")) {
      found = std::string(absl::StripPrefix(line, "  what():  "));
    } else if (absl::StartsWith(line, "terminate called after throwing an instance of")) {
      found = std::string(line);
    } else if (!line.empty() && !IsIndented(line) && (in_traceback || NamesException(line))) {
      if (found.empty() || !IsOfWrapper(line)) found = std::string(line);
      in_traceback = false;
    }
  }
  return found;
}

}  // namespace

LastWords CommandWords(const std::optional<ProcessEnd>& end, const std::string& error_file,
                       absl::string_view log_tail) {
  LastWords words;
  if (!end.has_value() || !end->start_error.empty()) return words;
  words.finished = end->signal == 0 && end->exit_code == 0;
  // A signal from outside is the cause, whatever the output says.
  if (words.finished || end->signal == SIGTERM || end->signal == SIGKILL) return words;
  std::string error = MessageOf(error_file);
  if (error.empty()) error = ErrorIn(log_tail);
  if (error.empty()) return words;
  const bool own_port = absl::StrContains(error, kPortTaken);
  words.kind = HasOneOf(kPeerGone, error) && !own_port ? FailureKind::kCollective
               : HasOneOf(kNoMemory, error)            ? FailureKind::kOutOfMemory
                                                       : FailureKind::kError;
  words.message = std::string(Utf8Prefix(error.substr(0, error.find('\n')), kMostMessageBytes));
  return words;
}

}  // namespace paceline
