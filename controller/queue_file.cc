#include "controller/queue_file.h"

#include <cstdint>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "yaml-cpp/yaml.h"

namespace paceline {
namespace {

constexpr int kHighestPriority = 1000000;
constexpr char kKeys[] = "priority, submitter_priority, slots and gpus";
constexpr int kHighestOfJob = 1000;  // The limit that common/job_spec has.

bool IsName(const std::string& text) {
  bool sound = !text.empty() && text.size() <= 63 && absl::ascii_islower(text[0]);
  for (const char c : text) {
    sound = sound && (absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-');
  }
  return sound;
}

class QueueParser {
 public:
  explicit QueueParser(std::string name) : name_(std::move(name)) {}

  void Parse(const YAML::Node& document) {
    if (document.IsNull()) return;
    if (!document.IsMap()) return Tell(document.Mark(), "the file is no group of queues");
    for (const auto& entry : document) ParseQueue(entry.first, entry.second);
  }

  void Tell(const YAML::Mark& at, const std::string& problem) {
    problems_.push_back(absl::StrCat(name_, ":", at.line + 1, ":", at.column + 1, ": ", problem));
  }

  absl::StatusOr<Queues> Take() {
    if (!problems_.empty()) {
      return absl::InvalidArgumentError(absl::StrJoin(problems_, "\n"));
    }
    return queues_;
  }

 private:
  void ParseQueue(const YAML::Node& name, const YAML::Node& value) {
    const std::string queue = name.IsScalar() ? name.Scalar() : "";
    if (!IsName(queue)) {
      return Tell(name.Mark(),
                  absl::StrCat("\"", queue,
                               "\" is no name of a queue; allowed are 1 to 63 "
                               "lower-case letters, digits and hyphens, a letter first"));
    }
    if (!names_.insert(queue).second) {
      return Tell(name.Mark(), absl::StrCat("the queue ", queue, " is given twice"));
    }
    Queue& made = queues_[queue] = Queue();
    if (value.IsNull()) return;
    if (!value.IsMap()) {
      return Tell(value.Mark(), absl::StrCat(queue, " takes a group of ", kKeys));
    }
    std::set<std::string> keys;
    for (const auto& entry : value) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
      if (!keys.insert(key).second) {
        Tell(entry.first.Mark(), absl::StrCat(queue, ".", key, " is given twice"));
      } else if (key == "priority") {
        made.priority = ParseNumber(absl::StrCat(queue, ".", key), entry.second, -kHighestPriority,
                                    kHighestPriority);
      } else if (key == "submitter_priority") {
        made.submitter_priority =
            ParseNumber(absl::StrCat(queue, ".", key), entry.second, -kHighestOfJob, kHighestOfJob);
      } else if (key == "slots" || key == "gpus") {
        (key == "slots" ? made.slots : made.gpus) = ParseNumber(
            absl::StrCat(queue, ".", key), entry.second, 0, std::numeric_limits<int>::max());
      } else {
        Tell(entry.first.Mark(),
             absl::StrCat("unknown key \"", key, "\" in ", queue, "; known are ", kKeys));
      }
    }
  }

  int ParseNumber(const std::string& key, const YAML::Node& value, int low, int high) {
    int number = 0;
    if (value.IsScalar() && value.Tag() != "!" && absl::SimpleAtoi(value.Scalar(), &number) &&
        number >= low && number <= high) {
      return number;
    }
    Tell(value.Mark(), absl::StrCat(key,
                                    value.IsScalar() ? absl::StrCat(" is \"", value.Scalar(), "\"")
                                                     : std::string(" is no number"),
                                    "; allowed is a whole number from ", low, " to ", high));
    return 0;
  }

  const std::string name_;
  Queues queues_ = DefaultQueues();
  std::set<std::string> names_;
  std::vector<std::string> problems_;
};

}  // namespace

absl::StatusOr<Queues> ParseQueues(const std::string& yaml, const std::string& name) {
  QueueParser parser(name);
  try {
    parser.Parse(YAML::Load(yaml));
  } catch (const YAML::Exception& error) {
    parser.Tell(error.mark, absl::StrCat("not YAML: ", error.msg));
  }
  return parser.Take();
}

absl::StatusOr<Queues> ReadQueueFile(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  if (!in || !(text << in.rdbuf())) {
    return absl::NotFoundError(absl::StrCat("cannot read the file of queues ", path));
  }
  return ParseQueues(text.str(), path);
}

}  // namespace paceline
