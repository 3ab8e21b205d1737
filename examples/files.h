/* files.h: the files that a program reads and writes, so that none is destroyed by mistake.
 *
 * Owns: opening them; that nothing written is read or written under another name too; that what is written is whole
 * before it takes its name.
 * Relies on: POSIX; stop.h where opening blocks.
 * Must never: change a file before all files of the run are open and differ, and all memory is taken (files_empty).
 *
 *     files f;
 *     files_begin(&f);                                        first of all in main()
 *     in = files_add(&f, FILES_READ, "the input", path);      -1: f.message says why
 *     out = files_add(&f, FILES_WRITE, "the output", path);   its old content is still there
 *     ... headers are read, memory is taken, whatever can be refused is refused ...
 *     files_empty(&f)                                         from now on results are kept
 *     stream = files_stream(&f, out); ...; files_close(stream)   now the file is the new one, whole
 *     files_end(&f);                                          a run that was refused has changed nothing
 *
 * What FILES_WRITE names is written to a file beside it, which takes the name when it is closed and whole: a full disk
 * or a signal leaves the file of before. So a hard link to that one keeps the old content; a link with a name stays a
 * link. Pipes and devices are written to as they are. Video (FILES_VIDEO) is written in place, frame by frame, so that
 * what a run has made when it is stopped is there.
 *
 * Two names are one file when device and inode are the same; what is not there yet is known by its name without links.
 * Pipes, terminals and devices such as /dev/null may be used twice, and standard output and standard error may be one
 * file.
 */
#ifndef FILES_H
#define FILES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum { FILES_MAX = 64, FILES_MESSAGE = 360 };

typedef enum files_use {
    FILES_READ,  /* "-" is standard input; a pipe is waited for */
    FILES_WHOLE, /* read; its size is known: no pipe and no device, which is refused at once. "-" is a file */
    FILES_NAMED, /* likewise, by its name, by somebody else */
    FILES_WRITE, /* "-" is a file */
    FILES_VIDEO  /* written; "-" is standard output; not to a terminal */
} files_use;

typedef struct files_item {
    const char *role, *path; /* the caller's, for as long as the files are used */
    int fd;                  /* -1: none */
    bool written, standard;
    bool taken;  /* somebody else closes it */
    bool made;   /* it was not there before, and is there: a video */
    bool unique; /* it keeps what is written to it: no pipe, terminal or device of characters */
    bool regular;
    bool video;  /* written in place */
    dev_t device;
    ino_t inode;
    uid_t owner;
    gid_t group;
    mode_t mode;
    uint64_t bytes; /* when it was opened */
    char *real;     /* of what is written and regular: its name without links */
    char *beside;   /* what is written instead, until it is whole; NULL: nothing is */
    FILE *stream;
} files_item;

typedef struct files {
    files_item items[FILES_MAX];
    int count;
    atomic_bool emptied; /* a profile is written by a thread of its own, which looks */
    char message[FILES_MESSAGE]; /* of the last failure: one line, with the system's reason */
} files;

/* Descriptors 0 to 2 that are closed are taken, so that no file is opened in their place; whoever uses them gets an
 * error. Pipes and terminals there that do not block are made to; sockets cannot be: y4m_io.c waits for them, and what
 * prints ends with an error when one is full. A file too large becomes an error of write, not a signal. SIGINT,
 * SIGTERM, SIGHUP and SIGPIPE, where nobody else takes them (stop.h), remove what is not whole before they end the
 * program. One set of files at a time. */
void files_begin(files *f);

/* Opens a file and compares it with all others. role: what messages call it. Returns its number, or -1. */
int files_add(files *f, files_use use, const char *role, const char *path);
/* Standard output of a program that prints. False: it is one of the files. */
bool files_add_stdout(files *f);

/* Once all can be done: from now on what is written is this run's, and videos are empty. Later calls do nothing. */
bool files_empty(files *f);
/* By any thread. */
bool files_emptied(files *f);

int files_fd(const files *f, int number);
/* Of a file that was added as FILES_WHOLE. */
uint64_t files_bytes(const files *f, int number);
/* The file as a stream, which is closed by files_close or files_discard. NULL, and errno says why: no memory, or
 * nothing can be written beside it. */
FILE *files_stream(files *f, int number);
/* The caller closes the descriptor from now on; standard ones stay open. */
int files_take(files *f, int number);
/* Flushes and closes; after files_empty the file then holds what was written, without it it is as it was. False, and
 * errno says why: not everything was written, and the file is as it was. A stream from elsewhere is closed. */
bool files_close(FILE *stream);
/* Closes, and the file stays as it was: what was written is not whole, or not wanted. NULL is fine. */
void files_discard(FILE *stream);

/* Whether a message of the library begins with the name of this file, or with the end of it where it is long. */
bool files_is_named(const char *message, const char *path);

/* Closes what is open. What was made and never written whole goes again. */
void files_end(files *f);

#endif
