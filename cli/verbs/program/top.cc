// paceline top [JOB]
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "cli/rpc/error_text.h"
#include "cli/text/utf8_locale.h"
#include "cli/top/terminal.h"
#include "cli/top/top_fetch.h"
#include "cli/top/top_screen.h"
#include "cli/top/top_view.h"
#include "cli/verbs/program/value_check.h"
#include "cli/verbs/program/verb_parts.h"
#include "cli/verbs/verbs.h"
#include "proto/job.pb.h"

namespace paceline {
namespace {

// If an answer takes longer, the screen says that the controller is away.
constexpr absl::Duration kPatience = absl::Seconds(3);
// The clock advances, whatever else happens.
constexpr absl::Duration kTick = absl::Seconds(1);

struct TopFlags {
  std::string job;
  double interval_s = 2;
  bool once = false;
};

TopStyle StyleOf(const Program& program) {
  TopStyle style;
  style.width = program.style().width;
  style.height = 0;
  style.colours = program.style().colours;
  style.utf8 = SpeaksUtf8([&](const char* name) { return program.Variable(name); });
  return style;
}

void PrintSnapshot(Program& program, const TopModel& model, const TopView& view) {
  for (const std::string& line : TopLines(model, view, StyleOf(program), absl::Now())) {
    program.out() << line << "\n";
  }
  program.out() << std::flush;
}

// Prints one snapshot, or one after another if the screen cannot be overwritten.
int PrintSnapshots(Program& program, const TopView& view, const TopFlags& flags, bool once) {
  bool seen = false;
  bool away = false;
  while (true) {
    TopModel model;
    const grpc::Status status = FetchTop(program.client(), {view.job, view.ended}, &model);
    if (status.ok()) {
      if (seen) program.out() << "\n";
      PrintSnapshot(program, model, view);
      seen = true;
    } else if (!seen || program.interrupt().raised() || !ErrorReason(status).empty()) {
      return program.Fail(status);
    } else if (!away) {
      program.Note(program.OutageText());
    }
    away = !status.ok();
    if (once || !program.out().good()) return kCliOk;
    if (program.interrupt().WaitFor(absl::Seconds(flags.interval_s))) return kCliInterrupted;
  }
}

// Runs the screen on a terminal until the user ends it.
class TopLoop {
 public:
  TopLoop(Program& program, std::unique_ptr<Terminal> terminal, TopView view, double interval_s)
      : program_(program),
        terminal_(std::move(terminal)),
        view_(std::move(view)),
        interrupted_(program.interrupt(), [this] { terminal_->Wake(); }),
        fetcher_(Options(program), absl::Seconds(interval_s), QueryOf(view_),
                 [this] { terminal_->Wake(); }) {}

  int Run() {
    model_.server = program_.server();
    while (!program_.interrupt().raised()) {
      const TopStyle style = Style();
      if (!terminal_->Draw(TopLines(model_, view_, style, absl::Now()))) return kCliOk;
      const Terminal::Input input = terminal_->Wait(kTick);
      if (input.gone) return kCliOk;
      for (const KeyPress& press : ReadKeys(input.bytes)) {
        if (!Take(press, TopPage(style))) return kCliOk;
      }
      std::optional<TopModel> news = fetcher_.Take();
      if (news.has_value()) model_ = *std::move(news);
    }
    return kCliInterrupted;
  }

 private:
  static Client::Options Options(Program& program) {
    Client::Options options = program.ClientOptions();
    options.timeout = std::min(kPatience, options.timeout);
    return options;
  }
  static TopQuery QueryOf(const TopView& view) { return {view.job, view.ended}; }

  TopStyle Style() const {
    TopStyle style = StyleOf(program_);
    const Terminal::Size size = terminal_->size();
    style.width = size.width;
    style.height = size.height;
    style.interactive = true;
    return style;
  }

  // Returns false if the user quits.
  bool Take(const KeyPress& press, int page) {
    switch (TakeKey(press, model_, page, view_)) {
      case TopAction::kQuit:
        return false;
      case TopAction::kFetch:
        if (model_.ranks.job_id() != view_.job) model_.ranks.Clear();
        fetcher_.Ask(QueryOf(view_));
        break;
      case TopAction::kSuspend:
        terminal_->Suspend();
        break;
      case TopAction::kNone:
        break;
    }
    return true;
  }

  Program& program_;
  const std::unique_ptr<Terminal> terminal_;
  TopView view_;
  TopModel model_;
  // Both wake the terminal, so they are destroyed before it.
  const Interrupt::Listener interrupted_;
  TopFetcher fetcher_;
};

int ShowTop(Program& program, const TopFlags& flags) {
  const absl::StatusOr<ServerChoice> choice = program.ChooseServer();
  if (!choice.ok()) return program.Fail(choice.status());
  TopView view;
  if (!flags.job.empty()) {
    v1::Job job;
    const grpc::Status status = GetJob(program, flags.job, &job);
    if (!status.ok()) return program.Fail(status);
    view.job = job.id();
    view.only = true;
  }
  const bool once = flags.once || !program.out_is_terminal();
  if (once || program.Variable("TERM") == "dumb" || program.Variable("TERM").empty()) {
    return PrintSnapshots(program, view, flags, once);
  }
  auto terminal = Terminal::Open(STDIN_FILENO, STDOUT_FILENO);
  if (!terminal.ok()) return PrintSnapshots(program, view, flags, once);
  return TopLoop(program, *std::move(terminal), std::move(view), flags.interval_s).Run();
}

}  // namespace

void AddTop(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<TopFlags>();
  CLI::App* verb = parent.add_subcommand(
      "top", "Show all jobs, or the ranks of one, as they go on; h tells the keys");
  verb->add_option("JOB", flags->job, "Id, unique beginning of an id, or name; none: all jobs");
  verb->add_option("--interval", flags->interval_s, "Seconds between two looks")
      ->transform(Seconds(0.1, 3600))
      ->capture_default_str();
  verb->add_flag("--once", flags->once, "One look, as plain lines; so it is without a terminal");
  verb->callback([flags, &program] {
    if (program.json()) {
      throw CLI::ValidationError("--output",
                                 "top prints text only; `paceline job list -o json` "
                                 "and `paceline job metrics JOB -o json` tell the same");
    }
    program.action = [flags, &program] { return ShowTop(program, *flags); };
  });
}

}  // namespace paceline
