#include "cli/verbs/job/job_problems.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "cli/rpc/error_text.h"
#include "cli/text/sanitize.h"

namespace paceline {
namespace {

std::string PlaceText(const std::string& file, FilePosition at) {
  return absl::StrCat(SanitizeLine(file), ":", at.line, ":", at.column, ": ");
}

}  // namespace

int TellProblems(Program& program, const std::string& file, const JobFile& job_file) {
  const size_t count = job_file.problems.size();
  program.err() << "error: " << SanitizeLine(file) << " has "
                << (count == 1 ? "a problem" : absl::StrCat(count, " problems")) << "\n";
  for (const FileProblem& problem : job_file.problems) {
    program.err() << "  " << PlaceText(file, problem.position) << SanitizeLine(problem.message)
                  << "\n";
  }
  program.err() << std::flush;
  return kCliUsage;
}

int TellRefusal(Program& program, const std::string& file, const JobFile& job_file,
                const grpc::Status& status) {
  JobFile refused = job_file;
  for (const FieldViolation& violation : FieldViolations(status)) {
    refused.problems.push_back(
        {PositionOf(job_file, violation.field),
         absl::StrCat(KeyOfField(violation.field), " ", violation.description)});
  }
  return refused.problems.empty() ? program.Fail(status) : TellProblems(program, file, refused);
}

}  // namespace paceline
