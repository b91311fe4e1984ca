#include "cli/testing/command_test.h"

#include <sstream>
#include <utility>

#include "cli/command_line.h"
#include "cli/program.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace paceline {

grpc::Status Refused(const std::string& message, const std::string& reason) {
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  google::rpc::Status whole;
  whole.add_details()->PackFrom(info);
  return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, message, whole.SerializeAsString());
}

Ran CommandTest::Paceline(std::vector<std::string> arguments, bool terminal) {
  std::ostringstream out;
  std::ostringstream err;
  Surroundings surroundings{out, err, terminal, terminal ? 100 : 0, [this](const char* name) {
                              const auto at = environment_.find(name);
                              return at == environment_.end() ? "" : at->second;
                            }};
  Program program(surroundings, interrupt_);
  Ran ran;
  ran.exit = RunCommandLine(program, std::move(arguments));
  ran.out = out.str();
  ran.err = err.str();
  return ran;
}

}  // namespace paceline
