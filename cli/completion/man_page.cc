#include "cli/completion/man_page.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace paceline {
namespace {

struct Named {
  const char* name;
  const char* what;
};

constexpr Named kExits[] = {
    {"0", "Done; of a job that was waited for: it succeeded."},
    {"1",
     "The job that was waited for failed or was cancelled, or the command could not do its "
     "work for a reason that has no code of its own."},
    {"2", "Wrong usage: flags, or a job file or request that cannot be. Nothing was done."},
    {"3", "No such job, node, checkpoint, context or file."},
    {"4", "Refused: the state of things does not allow it."},
    {"5", "Not permitted."},
    {"6", "The server did not answer."},
    {"7", "Not done within the time given."},
    {"130", "Interrupted; what was asked for goes on."},
};

constexpr Named kVariables[] = {
    {"PACELINE_SERVER", "The controller, HOST or HOST:PORT."},
    {"PACELINE_CONTEXT", "Name of a context; PACELINE_SERVER comes before it."},
    {"PACELINE_TLS_DIR", "Folder of your ca.pem, cert.pem and key.pem; --tls-dir comes before it."},
    {"PACELINE_TOKEN_FILE",
     "File of your token, in the place of a certificate; --token-file comes before it."},
    {"PACELINE_PLAINTEXT", "1: as --plaintext, for a controller on this machine."},
    {"PACELINE_CONFIG", "File of the contexts."},
    {"PACELINE_DEV_DIR", "Folder of the dev cluster; ~/.paceline/dev."},
    {"NO_COLOR", "Not empty: no colours."},
};

// Escapes text, so that nothing in it is taken for a roff command.
std::string Escaped(const std::string& text) {
  const std::string plain =
      absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}, {"'", "\\(aq"}, {"`", "\\(ga"}});
  return absl::StartsWith(plain, ".") ? absl::StrCat("\\&", plain) : plain;
}

void AddTagged(const std::string& tag, const std::string& what, std::string* page) {
  absl::StrAppend(page, ".TP\n", tag, "\n", Escaped(what), "\n");
}

std::string Bold(const std::string& text) { return absl::StrCat("\\fB", Escaped(text), "\\fR"); }

// "\fB-o\fR, \fB--output\fR \fIVALUE\fR".
std::string TagOf(const CompletionFlag& flag) {
  std::vector<std::string> names;
  for (const std::string& name : flag.names) names.push_back(Bold(name));
  return absl::StrCat(absl::StrJoin(names, ", "), flag.takes_value ? " \\fIVALUE\\fR" : "");
}

std::string WhatOf(const CompletionFlag& flag) {
  std::string what = flag.what;
  if (!flag.choices.empty()) {
    absl::StrAppend(&what, ": ", absl::StrJoin(flag.choices, ", "));
  }
  if (!flag.standard.empty()) absl::StrAppend(&what, " (", flag.standard, ")");
  return what;
}

std::string ArgumentText(const CompletionArgument& argument) {
  const std::string name =
      absl::StrCat("\\fI", Escaped(argument.name), "\\fR", argument.many ? "..." : "");
  return argument.required ? name : absl::StrCat("[", name, "]");
}

void AddFlags(const CompletionCommand& command, std::string* page) {
  for (size_t i = 0; i < command.own_flags; ++i) {
    const CompletionFlag& flag = command.flags[i];
    if (flag.names.front() == "--help") continue;
    AddTagged(TagOf(flag), WhatOf(flag), page);
  }
}

void AddExamples(const std::string& text, std::string* page) {
  if (text.empty()) return;
  absl::StrAppend(page, ".PP\n.EX\n");
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  for (const std::string& line : lines) absl::StrAppend(page, Escaped(line), "\n");
  absl::StrAppend(page, ".EE\n");
}

void AddCommand(const CompletionCommand& command, const std::string& examples, std::string* page) {
  std::string usage = Bold(command.path);
  for (const CompletionArgument& argument : command.arguments) {
    absl::StrAppend(&usage, " ", ArgumentText(argument));
  }
  absl::StrAppend(page, ".SS ", usage, "\n", Escaped(command.what), ".\n");
  for (const CompletionArgument& argument : command.arguments) {
    AddTagged(absl::StrCat("\\fI", Escaped(argument.name), "\\fR"), argument.what, page);
  }
  AddFlags(command, page);
  AddExamples(examples, page);
}

}  // namespace

std::string ManPage(const std::vector<CompletionCommand>& commands, const std::string& version,
                    const std::function<std::string(const std::string&)>& examples) {
  std::string page = absl::StrCat(
      ".\\\" Made by `paceline man`.\n.TH PACELINE 1 \"\" \"Paceline ", Escaped(version),
      "\" \"User Commands\"\n.SH NAME\npaceline \\- submits training jobs and shows what becomes "
      "of "
      "them\n.SH SYNOPSIS\n.B paceline\n[\\fIOPTION\\fR]...\\& \\fICOMMAND\\fR "
      "[\\fIARGUMENT\\fR]...\n.SH DESCRIPTION\n",
      Escaped(commands.front().what),
      "\n.PP\nData goes to the standard output, messages to the standard error; nothing is ever "
      "asked. A JOB is an id, a beginning of an id that fits no other, or a name; of several jobs "
      "of a name the newest is meant. A NODE may be a list such as n[01\\-16],m3.\n.SH OPTIONS\n"
      "They may stand before or behind the command.\n");
  AddFlags(commands.front(), &page);
  absl::StrAppend(&page, ".SH COMMANDS\n");
  for (const CompletionCommand& command : commands) {
    if (command.subcommands.empty()) AddCommand(command, examples(command.path), &page);
  }
  absl::StrAppend(&page, ".SH EXIT STATUS\n");
  for (const Named& exit : kExits) AddTagged(Bold(exit.name), exit.what, &page);
  absl::StrAppend(&page, ".SH ENVIRONMENT\n");
  for (const Named& variable : kVariables) AddTagged(Bold(variable.name), variable.what, &page);
  absl::StrAppend(&page, ".SH FILES\n");
  AddTagged("\\fI~/.config/paceline/config.yaml\\fR",
            "The contexts: controllers under names of yours. $XDG_CONFIG_HOME and $PACELINE_CONFIG "
            "name other places.",
            &page);
  return page;
}

}  // namespace paceline
