// What the tests of job files begin with.
#ifndef CLI_JOB_FILE_SOUND_JOB_FILE_H_
#define CLI_JOB_FILE_SOUND_JOB_FILE_H_

#include <string>
#include <vector>

#include "cli/job_file/job_file.h"

namespace paceline {

inline constexpr char kSound[] = R"(name: digits
ranks: 4
model: resnet18
data: {train: train.shard, eval: /abs/test.shard}
steps: 100
optimizer: {kind: sgd, learning_rate: 0.1, momentum: 0.9, nesterov: true}
)";

// "LINE:COLUMN MESSAGE" of each problem.
inline std::vector<std::string> Problems(const std::string& yaml) {
  std::vector<std::string> out;
  for (const FileProblem& p : ParseJobFile(yaml, "/jobs").problems) {
    out.push_back(std::to_string(p.position.line) + ":" + std::to_string(p.position.column) + " " +
                  p.message);
  }
  return out;
}

inline std::vector<std::string> ProblemsOfAddition(const std::string& lines) {
  return Problems(kSound + lines);
}

}  // namespace paceline

#endif  // CLI_JOB_FILE_SOUND_JOB_FILE_H_
