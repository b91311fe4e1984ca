#include "cli/command_line.h"

#include <algorithm>
#include <memory>
#include <sstream>
#include <utility>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/text/nearest.h"
#include "cli/text/sanitize.h"
#include "cli/text/wrapped.h"
#include "cli/verbs/program/examples.h"
#include "cli/verbs/program/value_check.h"
#include "cli/verbs/verbs.h"
#include "common/version.h"

namespace paceline {
namespace {

constexpr char kFooter[] =
    "\nExit codes: 0 ok, 1 the job or the command failed, 2 wrong usage, 3 not found, "
    "4 refused, 5 not permitted, 6 server unavailable, 7 timeout, 130 interrupted.";

// Formats help for a terminal of `width` columns; 0: unknown. CLI11's own formatter does not wrap.
class WrappedHelp : public CLI::Formatter {
 public:
  explicit WrappedHelp(int width) : width_(std::max(40, width == 0 ? 80 : width)) {
    column_width(static_cast<size_t>(std::min(30, width_ / 3)));
  }

  std::string make_description(const CLI::App* app) const override {
    return Lines(CLI::Formatter::make_description(app));
  }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    return Lines(CLI::Formatter::make_usage(app, std::move(name)));
  }
  std::string make_subcommand(const CLI::App* sub) const override {
    return Entry(sub->get_display_name(true), sub->get_description());
  }
  std::string make_option(const CLI::Option* option, bool positional) const override {
    return Entry(make_option_name(option, positional) + make_option_opts(option),
                 make_option_desc(option));
  }
  std::string make_footer(const CLI::App* app) const override {
    return Lines(CLI::Formatter::make_footer(app));
  }

 private:
  // Wraps each line, keeping its margin. Examples are left whole, so that they can be copied.
  std::string Lines(const std::string& text) const {
    std::vector<std::string> lines = absl::StrSplit(text, '\n');
    for (std::string& line : lines) {
      if (absl::StartsWith(line, "  paceline")) continue;
      const std::string margin(std::min(line.find_first_not_of(' '), line.size()), ' ');
      const int room = width_ - static_cast<int>(margin.size());
      line = margin + absl::StrJoin(Wrapped(line, room), "\n" + margin);
    }
    return absl::StrJoin(lines, "\n");
  }

  std::string Entry(const std::string& name, const std::string& what) const {
    constexpr int kHang = 6;
    std::ostringstream out;
    const int column = static_cast<int>(get_column_width());
    const std::string left =
        absl::StrJoin(Wrapped(name, width_ - kHang), "\n" + std::string(kHang, ' '));
    CLI::detail::format_help(out, left, absl::StrJoin(Wrapped(what, width_ - column), "\n"),
                             get_column_width());
    return out.str();
  }

  const int width_;
};

CLI::App* AddGroup(CLI::App& parent, const std::string& name, const std::string& what) {
  CLI::App* group = parent.add_subcommand(name, what);
  group->require_subcommand(1);
  return group;
}

void AddGlobalFlags(CLI::App& app, GlobalFlags& flags) {
  CLI::Option* server = app.add_option(
      "-s,--server", flags.server,
      "Controller, HOST or HOST:PORT (7450); several that stand by for each other with "
      "commas between them. Default: $PACELINE_SERVER, else that "
      "of the context, else the dev cluster when it is up, else 127.0.0.1:7450");
  app.add_option("--context", flags.context,
                 "Name of a context (`paceline context`). Default: $PACELINE_CONTEXT, else the "
                 "one in use")
      ->excludes(server);
  CLI::Option* tls_dir =
      app.add_option("--tls-dir", flags.tls_dir,
                     "Folder of your ca.pem, cert.pem and key.pem. Default: those of the context, "
                     "else $PACELINE_TLS_DIR, else ~/.config/paceline/tls")
          ->check(PlainPath());
  CLI::Option* token_file =
      app.add_option("--token-file", flags.token_file,
                     "File of your token, which only you can read, in the place of a certificate; "
                     "of the folder of --tls-dir only ca.pem is used then. Default: that of the "
                     "context, else $PACELINE_TOKEN_FILE")
          ->check(PlainPath());
  app.add_flag("--plaintext", flags.plaintext,
               "Speak plain text with a controller on this machine that has no certificates")
      ->excludes(tls_dir)
      ->excludes(token_file);
  app.add_option("-o,--output", flags.output, "Form of the output; name: what lists list, alone")
      ->check(CLI::IsMember({"table", "wide", "json", "yaml", "name"}))
      ->capture_default_str();
  app.add_flag("--no-headers", flags.no_headers, "Lists without their first line");
  app.add_option("--timeout", flags.timeout_s,
                 "Seconds that one request may take, with its repetitions")
      ->transform(Seconds(0.001, 86400))
      ->capture_default_str();
  app.add_flag("--no-color", flags.no_color, "No colours; as is $NO_COLOR");
  app.add_flag("-q,--quiet", flags.quiet, "No messages besides data and errors");
}

// Returns the command that was being parsed when something went wrong.
const CLI::App& Deepest(const CLI::App& app) {
  const CLI::App* deepest = &app;
  while (!deepest->get_subcommands().empty()) deepest = deepest->get_subcommands().front();
  return *deepest;
}

std::string FullName(const CLI::App& app) {
  if (app.get_parent() == nullptr) return app.get_name();
  return absl::StrCat(FullName(*app.get_parent()), " ", app.get_name());
}

// Returns the words that `app` would have understood in place of `word`.
std::vector<std::string> Candidates(const CLI::App& app, const std::string& word) {
  std::vector<std::string> candidates;
  if (absl::StartsWith(word, "-")) {
    for (const CLI::App* at = &app; at != nullptr; at = at->get_parent()) {
      for (const CLI::Option* option : at->get_options()) {
        for (const std::string& name : option->get_lnames()) candidates.push_back("--" + name);
      }
    }
    return candidates;
  }
  for (const CLI::App* sub : app.get_subcommands({})) {
    if (!sub->get_group().empty()) candidates.push_back(sub->get_name());
  }
  return candidates;
}

// Whether the command can print names for other commands to take.
bool PrintsNames(const CLI::App& verb) {
  const std::string path = FullName(verb);
  return verb.get_name() == "list" || path == "paceline submit" || path == "paceline job resume";
}

// Words that people know from other tools, and the command that is meant. `at`: the command after
// which they are typed.
struct Habit {
  const char* at;
  const char* words;  // Separated by blanks.
  const char* meant;
};
constexpr Habit kHabits[] = {
    {"paceline", " ls ps jobs list squeue ", "paceline job list"},
    {"paceline", " nodes sinfo ", "paceline node list"},
    {"paceline", " checkpoints ", "paceline checkpoint list"},
    {"paceline", " logs log ", "paceline job logs JOB"},
    {"paceline", " events ", "paceline job events JOB"},
    {"paceline", " kill stop cancel delete rm scancel ", "paceline job cancel JOB"},
    {"paceline", " resume ", "paceline job resume JOB"},
    {"paceline", " drain cordon ", "paceline node drain NODE"},
    {"paceline", " start create apply sbatch ", "paceline submit FILE"},
    {"paceline", " torchrun ", "paceline run SCRIPT"},
    {"paceline", " status info ", "paceline cluster status"},
    {"paceline job", " ls ps ", "paceline job list"},
    {"paceline job", " delete rm remove kill stop ", "paceline job cancel JOB"},
    {"paceline job", " submit run start create apply ", "paceline submit FILE"},
    {"paceline job", " top ", "paceline top JOB"},
    {"paceline job", " get show info status ", "paceline job describe JOB"},
    {"paceline node", " ls ", "paceline node list"},
    {"paceline node", " get show info status ", "paceline node describe NODE"},
    {"paceline node", " delete rm remove ", "paceline node drain NODE"},
    {"paceline checkpoint", " ls ", "paceline checkpoint list"},
    {"paceline checkpoint", " get show info ", "paceline checkpoint describe CHECKPOINT"},
    {"paceline checkpoint", " rm remove ", "paceline checkpoint delete CHECKPOINT"},
    {"paceline queue", " ls ", "paceline queue list"},
    {"paceline context", " ls ", "paceline context list"},
};

bool HasCommand(const CLI::App& group, const std::string& name) {
  const auto subs = group.get_subcommands({});
  return std::any_of(subs.begin(), subs.end(),
                     [&](const CLI::App* sub) { return sub->get_name() == name; });
}

// Returns the command that `words`, not understood after `at`, mean in other tools; empty: none.
std::string MeantElsewhere(const CLI::App& at, const std::vector<std::string>& words) {
  const std::string path = FullName(at);
  std::string verb = words.front();
  std::string group = path;
  // `describe node w0` is recognised by its second word.
  if (HasCommand(at, verb)) return absl::StrCat(path, " ", verb);
  // `get jobs`, `describe nodes`: the verb comes first.
  if (path == "paceline" && words.size() > 1) {
    for (const char* const thing : {"job", "node", "checkpoint"}) {
      if (words[1] != thing && words[1] != absl::StrCat(thing, "s")) continue;
      group = absl::StrCat(path, " ", thing);
      if (verb == "get" && words.size() == 2) verb = "ls";
      if (HasCommand(*at.get_subcommand(thing), verb)) {
        return absl::StrCat(group, " ", verb);
      }
    }
  }
  for (const Habit& habit : kHabits) {
    if (group == habit.at && absl::StrContains(habit.words, absl::StrCat(" ", verb, " "))) {
      return habit.meant;
    }
  }
  return "";
}

int TellUsage(Program& program, const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& at = Deepest(app);
  std::string what = error.what();
  const std::vector<std::string> extra = app.remaining(/*recurse=*/true);
  if (!extra.empty()) {
    const std::string word = extra.front().substr(0, extra.front().find('='));
    const bool command = !at.get_subcommands({}).empty() && !absl::StartsWith(word, "-");
    std::string meant = command ? MeantElsewhere(at, extra) : "";
    if (meant.empty()) meant = Nearest(word, Candidates(at, word));
    what = absl::StrCat(command ? "unknown command" : "unexpected", " \"", word, "\"",
                        meant.empty() ? "" : absl::StrCat("; did you mean \"", meant, "\"?"));
  }
  program.err() << "error: " << SanitizeLine(what) << "\n  `" << FullName(at)
                << " --help` shows what there is" << std::endl;
  return kCliUsage;
}

// One function per group of verbs.
void AddJobVerbs(CLI::App& app, Program& program) {
  AddRun(app, program);
  AddInit(app, program);
  AddSubmit(app, program);
  AddTop(app, program);
  AddDrill(app, program);
  CLI::App* job = AddGroup(app, "job",
                           "Jobs: list, describe, logs, events, metrics, samples, label, ladder, "
                           "mode, profile, cancel, resume, wait, watch, why, advise, apply, "
                           "decisions");
  AddJobViews(*job, program);
  AddJobLogs(*job, program);
  AddJobChanges(*job, program);
  AddJobResume(*job, program);
  AddJobFollowing(*job, program);
  AddJobAdvice(*job, program);
  AddJobHistory(*job, program);
  AddJobSamples(*job, program);
  CLI::App* checkpoint = AddGroup(
      app, "checkpoint", "Checkpoints: list, describe, save, verify, export, delete, pin, unpin");
  AddCheckpointViews(*checkpoint, program);
  AddCheckpointSave(*checkpoint, program);
  AddCheckpointFiles(*checkpoint, program);
  AddCheckpointChanges(*checkpoint, program);
}

void AddNodeVerbs(CLI::App& app, Program& program) {
  CLI::App* node = AddGroup(app, "node",
                            "Nodes: list, describe, cordon, uncordon, drain, replace, resume, "
                            "lost, history, check, watch");
  AddNodeViews(*node, program);
  AddNodeChanges(*node, program);
  AddNodeHistory(*node, program);
  AddAutomationVerbs(
      *AddGroup(app, "automation",
                "What the controller does to nodes by itself: status, pause, resume"),
      program);
}

void AddOtherVerbs(CLI::App& app, Program& program) {
  AddAdminVerbs(*AddGroup(app, "admin", "The daemons themselves: log-level, backup, restore"),
                program);
  AddDevVerbs(*AddGroup(app, "dev", "A cluster on this machine: up, down, status"), program);
  AddDataVerbs(*AddGroup(app, "data", "Data sets: import-digits, import-hf, tokenize"), program);
  AddContextVerbs(
      *AddGroup(app, "context", "Controllers under names of yours: add, use, list, show, remove"),
      program);
  AddPkiVerbs(
      *AddGroup(app, "pki", "Certificates: init, issue, rotate, token, revoke, revoked, show"),
      program);
  AddWhoAmI(app, program);
  AddClusterStatus(*AddGroup(app, "cluster", "The whole cluster: status"), program);
  AddQueueList(*AddGroup(app, "queue", "Queues: list"), program);
  AddDiag(app, program);
  AddSelfVerbs(app, program);
}

// Puts the examples at the beginning of each command's footer.
void AddExamples(CLI::App& app) {
  const std::string examples = ExamplesText(FullName(app));
  if (!examples.empty()) app.footer(absl::StrCat("\n", examples, app.get_footer()));
  for (CLI::App* sub : app.get_subcommands([](CLI::App*) { return true; })) AddExamples(*sub);
}

// Whether `word` is an option, of `app` or of a command above it, that takes the next word as its
// value.
bool TakesNextWord(const CLI::App& app, const std::string& word) {
  if (absl::StrContains(word, '=')) return false;
  for (const CLI::App* at = &app; at != nullptr; at = at->get_parent()) {
    const CLI::Option* const option = at->get_option_no_throw(word);
    if (option != nullptr) return option->get_items_expected_max() > 0;
  }
  return false;
}

// In `paceline run train.py --lr 3`, what follows the script belongs to it, as after "--".
void SetScriptApart(CLI::App& app, std::vector<std::string>& arguments) {
  const CLI::App* at = &app;
  for (size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    if (absl::StartsWith(arguments[i], "-")) {
      if (TakesNextWord(*at, arguments[i])) ++i;
    } else if (at == &app) {
      if (arguments[i] != "run") return;
      at = app.get_subcommand("run");
    } else {
      arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(i), "--");
      return;
    }
  }
}

}  // namespace

std::unique_ptr<CLI::App> MakeCommandLine(Program& program) {
  auto app =
      std::make_unique<CLI::App>("Trains models on many machines and keeps the pace.", "paceline");
  app->formatter(std::make_shared<WrappedHelp>(program.width()));
  // Allows global flags after the verb, too.
  app->fallthrough();
  app->require_subcommand(1);
  app->footer(kFooter);
  app->set_version_flag("--version", std::string("paceline ") + kVersion);
  AddGlobalFlags(*app, program.flags);
  AddJobVerbs(*app, program);
  AddNodeVerbs(*app, program);
  AddOtherVerbs(*app, program);
  AddExamples(*app);
  return app;
}

void ParseCommandLine(CLI::App& app, std::vector<std::string> arguments) {
  SetScriptApart(app, arguments);
  // CLI11 takes them from the back.
  std::reverse(arguments.begin(), arguments.end());
  app.parse(std::move(arguments));
}

int RunCommandLine(Program& program, std::vector<std::string> arguments) {
  const std::unique_ptr<CLI::App> app = MakeCommandLine(program);
  try {
    ParseCommandLine(*app, std::move(arguments));
  } catch (const CLI::ParseError& error) {
    // --help and --version arrive here, too.
    if (error.get_exit_code() == 0) {
      app->exit(error, program.out(), program.err());
      return kCliOk;
    }
    return TellUsage(program, *app, error);
  }
  if (program.names() && !PrintsNames(Deepest(*app))) {
    return program.Fail(kCliUsage, absl::StrCat("`", FullName(Deepest(*app)),
                                                "` lists no names; --output name is for lists"));
  }
  const int exit = program.action();
  program.out().flush();
  return exit;
}

}  // namespace paceline
