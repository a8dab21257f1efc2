# How does an interactive shell greet? Coloured prompt and listings, nothing else.
case $- in *i*) ;; *) return ;; esac
HISTCONTROL=ignoreboth HISTSIZE=5000 HISTFILESIZE=10000
shopt -s histappend checkwinsize
PS1='\[\e[1;34m\]\w\[\e[0m\] \[\e[1;32m\]\$\[\e[0m\] '
case $TERM in xterm*) PS1='\[\e]0;\w\a\]'$PS1 ;; esac
alias ls='ls --color=auto' ll='ls -l' grep='grep --color=auto'
